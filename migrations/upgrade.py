"""Brings a database to the newest schema, or says how it differs from the models."""

from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, NullPool, create_engine


def upgrade(url: str, revision: str = "head") -> None:
    """Apply every migration up to `revision` that the database lacks."""
    with create_engine(url, poolclass=NullPool).connect() as connection:
        command.upgrade(_config(connection), revision)


def downgrade(url: str, revision: str = "-1") -> None:
    with create_engine(url, poolclass=NullPool).connect() as connection:
        command.downgrade(_config(connection), revision)


def check(url: str) -> None:
    """Raise alembic.util.CommandError if the migrated database and the models disagree."""
    with create_engine(url, poolclass=NullPool).connect() as connection:
        command.check(_config(connection))


def _config(connection: Connection) -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent))
    config.set_main_option("file_template", "%%(rev)s_%%(slug)s")
    config.attributes["connection"] = connection
    return config
