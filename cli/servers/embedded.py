"""The three servers of one data directory: their ports and passwords, remembered in it."""

import json
import secrets
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from cli import ports, private_file
from cli.program import Program
from cli.servers.postgres import Postgres
from cli.servers.postgres_home import find_home
from cli.servers.seaweedfs import NUM_PORTS, SeaweedFS
from cli.servers.valkey import Valkey
from jobs.secrets import Secrets

BUCKET = "gristmill"
_PORTS_IN_ALL = 2 + NUM_PORTS


@dataclass(frozen=True, kw_only=True)
class Identity:
    """What makes a data directory's servers the same ones tomorrow: its passwords and its key."""

    label: str
    postgres_password: str
    broker_password: str
    access_key: str
    secret_key: str
    server_key: str

    @classmethod
    def of(cls, data_dir: Path) -> Self:
        """Read it, or make it on the first call.  Only the owner may read the file."""
        path = data_dir / "identity.json"
        if path.exists():
            return cls(**json.loads(path.read_text(encoding="utf-8")))
        identity = cls(
            label=secrets.token_hex(8),
            postgres_password=secrets.token_urlsafe(24),
            broker_password=secrets.token_urlsafe(24),
            access_key=secrets.token_hex(10),
            secret_key=secrets.token_urlsafe(30),
            server_key=Secrets.generate_key(),
        )
        private_file.write(path, asdict(identity))
        return identity


@dataclass(frozen=True, kw_only=True)
class Embedded:
    """The three servers, described; whoever starts their programs makes them real."""

    postgres: Postgres
    valkey: Valkey
    seaweedfs: SeaweedFS
    server_key: str

    def programs(self) -> list[Program]:
        """The slowest to come up first; none needs another."""
        return [self.seaweedfs.program(), self.postgres.program(), self.valkey.program()]

    def environment(self) -> dict[str, str]:
        """The settings by which our own programs find them."""
        storage = self.seaweedfs.settings
        return {
            "DATABASE__URL": self.postgres.url,
            "BROKER__URL": self.valkey.url,
            "STORAGE__ENDPOINT": str(storage.endpoint),
            "STORAGE__REGION": storage.region,
            "STORAGE__BUCKET": storage.bucket,
            "STORAGE__ACCESS_KEY": storage.access_key,
            "STORAGE__SECRET_KEY": storage.secret_key.get_secret_value(),
            "SECRETS__KEY": self.server_key,
        }


def embedded(data_dir: Path, *, durable: bool = True) -> Embedded:
    """Describe the servers of `data_dir`, on the ports of its last run where those are free."""
    data_dir = data_dir.resolve()  # the servers have working directories of their own
    data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    identity = Identity.of(data_dir)
    logs = data_dir / "logs"
    postgres_port, broker_port, *storage_ports = _choose_ports(data_dir / "ports.json")
    return Embedded(
        postgres=Postgres(
            home=find_home(data_dir, label=identity.label),
            log=logs / "postgres.log",
            port=postgres_port,
            password=identity.postgres_password,
            durable=durable,
        ),
        valkey=Valkey(
            home=data_dir / "broker",
            log=logs / "broker.log",
            port=broker_port,
            password=identity.broker_password,
        ),
        seaweedfs=SeaweedFS(
            home=data_dir / "storage",
            log=logs / "storage.log",
            ports=tuple(storage_ports),
            bucket=BUCKET,
            access_key=identity.access_key,
            secret_key=identity.secret_key,
        ),
        server_key=identity.server_key,
    )


def remove(data_dir: Path) -> None:
    """Delete a data directory whose servers have stopped, with what had to lie outside of it."""
    home = find_home(data_dir, label=Identity.of(data_dir).label)
    shutil.rmtree(home.data.parent, ignore_errors=True)
    shutil.rmtree(data_dir, ignore_errors=True)


def _choose_ports(memory: Path) -> list[int]:
    last = json.loads(memory.read_text(encoding="utf-8")) if memory.exists() else []
    chosen = ports.free_pairs(_PORTS_IN_ALL, preferred=last)
    private_file.write(memory, chosen)
    return chosen
