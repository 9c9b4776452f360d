"""The database: PostgreSQL 18.

It refuses to run as root, so for root it runs as the system's `nobody`, with its files where that
user may reach them; everybody else runs it as themselves.
"""

import os
import shutil
import signal
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from cli.errors import ServerUnavailable
from cli.ports import HOST
from cli.program import NotReady, Program
from cli.servers.leftovers import end_backends_of
from cli.servers.postgres_home import PostgresHome

_NAME = "gristmill"  # of the superuser and of the database
_INITDB = (
    f"--username={_NAME}",
    "--auth=scram-sha-256",
    "--encoding=UTF8",
    "--locale-provider=builtin",
    "--builtin-locale=C.UTF-8",
    "--locale=C",
    "--no-instructions",
)
_ENVIRONMENT = {"PATH": os.defpath, "TZ": "UTC"}
_SETTINGS = {
    "listen_addresses": HOST,
    "unix_socket_directories": "",
    "max_connections": "200",
    "timezone": "UTC",
    "log_timezone": "UTC",
}
_RECOVERY_SECONDS = 300.0  # after a kill in the middle of much work
# A kill of the server still loses nothing; a power cut may lose everything.
_FORGETFUL = {"fsync": "off", "full_page_writes": "off"}


@dataclass(frozen=True, kw_only=True)
class Postgres:
    """durable: False gives up safety from a power cut, for tests."""

    home: PostgresHome
    log: Path
    port: int
    password: str = field(repr=False)
    durable: bool = True

    @property
    def url(self) -> str:
        return f"postgresql+psycopg://{_NAME}:{self.password}@{HOST}:{self.port}/{_NAME}"

    def program(self) -> Program:
        settings = _SETTINGS | {"port": str(self.port)} | ({} if self.durable else _FORGETFUL)
        flags = [flag for name, value in settings.items() for flag in ("-c", f"{name}={value}")]
        return Program(
            name="postgres",
            argv=(str(self.home.install / "bin/postgres"), "-D", str(self.home.data), *flags),
            env=_ENVIRONMENT,
            cwd=Path("/"),
            log=self.log,
            prepare=self._prepare,
            probe=self._probe,
            ready_seconds=_RECOVERY_SECONDS,
            # Ends open transactions at once; SIGTERM would wait for every client to leave.
            stop_signal=signal.SIGINT,
            orphan_signal=signal.SIGINT,
            user=self.home.user,
        )

    def _prepare(self) -> None:
        end_backends_of(self.home.data)
        (self.home.data / "postmaster.pid").unlink(missing_ok=True)
        if not (self.home.data / "PG_VERSION").exists():
            self._initdb()

    def _initdb(self) -> None:
        """Make the cluster beside its place and move it there whole."""
        final = self.home.data
        fresh = final.with_name(f"{final.name}.new")
        password = final.with_name(f"{final.name}.password")
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(mode=0o700, parents=True)
        try:
            password.touch(mode=0o600)
            password.write_text(self.password, encoding="utf-8")
            if self.home.user is not None:
                os.chown(fresh, self.home.user, self.home.user)
                os.chown(password, self.home.user, self.home.user)
            self._run_initdb(fresh, password)
        finally:
            password.unlink()
        fresh.rename(final)

    def _run_initdb(self, data: Path, password: Path) -> None:
        program = str(self.home.install / "bin/initdb")
        sync = () if self.durable else ("--no-sync",)
        done = subprocess.run(
            (program, "-D", str(data), f"--pwfile={password}", *_INITDB, *sync),
            text=True,
            capture_output=True,
            check=False,
            env=_ENVIRONMENT,
            cwd="/",
            user=self.home.user,
            group=self.home.user,
            extra_groups=None if self.home.user is None else [],
        )
        if done.returncode != 0:
            reason = done.stderr.strip().splitlines()[-1:]
            raise ServerUnavailable("postgres could not make its cluster", log_tail="".join(reason))

    def _probe(self, _pid: int) -> None:
        conninfo = self.url.replace("+psycopg", "").removesuffix(_NAME) + "postgres"
        try:
            with psycopg.connect(conninfo, connect_timeout=2, autocommit=True) as connection:
                _ensure_database(connection)
        except psycopg.OperationalError as error:
            raise NotReady(str(error)) from error


def _ensure_database(connection: psycopg.Connection) -> None:
    found = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (_NAME,))
    if found.fetchone() is None:
        connection.execute(f"CREATE DATABASE {_NAME}")
