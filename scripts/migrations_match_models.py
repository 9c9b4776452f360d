"""Migrates an empty database and compares it with the models: it must hold exactly those.

`python -m scripts.migrations_match_models`
"""

import sys
import tempfile
from pathlib import Path

from alembic.util import CommandError

from cli.process import Process
from cli.servers.embedded import embedded
from migrations import upgrade


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="gristmill-check-") as folder:
        Path(folder).chmod(0o711)  # Postgres may run as somebody else
        postgres = embedded(Path(folder), durable=False).postgres
        process = Process(postgres.program())
        try:
            process.wait_ready()
            upgrade.upgrade(postgres.url)
            upgrade.check(postgres.url)
        except CommandError as error:
            sys.exit(f"migrations and models differ: {error}")
        finally:
            process.stop()


if __name__ == "__main__":
    main()
