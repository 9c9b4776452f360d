"""The object store: SeaweedFS's all-in-one server, which speaks S3.

One process, ten ports, all on loopback.  Only S3 is for us; the others belong to its parts among
themselves: their HTTP wants a signed token and their gRPC a certificate.  So neither another user
of the machine nor a page in somebody's browser can go round S3's keys.
"""

import contextlib
import secrets
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import httpx

from cli.ports import HOST, PAIR_DISTANCE
from cli.program import NotReady, Program
from cli.servers import wheels
from cli.servers.certificate import write_pair
from cli.settings import inherited
from jobs.errors import StorageUnavailable
from jobs.settings import StorageSettings
from jobs.storage import Storage

# Without it the process grows to 800 MB.  Half of this is less than it holds by design, and its
# collector then runs without end: five times the CPU time of each PUT (bench/NOTES.md).
_MEMORY_LIMIT = "512MiB"
_TOKENS = ("JWT_SIGNING", "JWT_SIGNING_READ", "JWT_FILER_SIGNING", "JWT_FILER_SIGNING_READ")
_GRPC_ROLES = ("MASTER", "VOLUME", "FILER", "S3", "ADMIN", "WORKER", "CLIENT")
_PARTS = ("master", "volume", "filer", "s3", "admin")
NUM_PORTS = len(_PARTS)


@dataclass(frozen=True, kw_only=True)
class SeaweedFS:
    """ports: one of a pair for each of its parts; see cli.ports."""

    home: Path
    log: Path
    ports: tuple[int, ...]
    bucket: str
    access_key: str
    secret_key: str = field(repr=False)

    @property
    def settings(self) -> StorageSettings:
        return StorageSettings.model_validate(
            {
                "endpoint": f"http://{HOST}:{self.ports[_PARTS.index('s3')]}",
                "bucket": self.bucket,
                "access_key": self.access_key,
                "secret_key": self.secret_key,
            }
        )

    def program(self) -> Program:
        storage = Storage(self.settings)
        return Program(
            name="storage",
            argv=(str(wheels.weed()), "-logtostderr=true", "mini", *self._flags()),
            env=self._environment(),
            cwd=self.home,
            log=self.log,
            prepare=self._prepare,
            probe=partial(_probe, storage, str(self.settings.endpoint)),
            tidy=self._remove_sockets,
        )

    def _flags(self) -> list[str]:
        flags = {
            "dir": self._data,
            "ip": HOST,
            "ip.bind": HOST,
            "master.telemetry": "false",
            "master.volumeSizeLimitMB": 1024,
            "volume.preStopSeconds": 0,
            "filer.exposeDirectoryData": "false",
            "filer.localSocket": self.home / "filer.sock",
            "s3.localSocket": self.home / "s3.sock",
            "s3.iam": "false",
            "s3.port.iceberg": 0,
            "s3.port.lance": 0,
            "webdav": "false",
            "admin.ui": "false",
        }
        for part, port in zip(_PARTS, self.ports, strict=True):
            flags |= {f"{part}.port": port, f"{part}.port.grpc": port + PAIR_DISTANCE}
        return [f"-{name}={value}" for name, value in flags.items()]

    def _environment(self) -> dict[str, str]:
        return {
            **inherited(),
            **{f"WEED_{name}_KEY": secrets.token_hex(16) for name in _TOKENS},
            "WEED_GRPC_CA": str(self._certificate),
            **{f"WEED_GRPC_{role}_CERT": str(self._certificate) for role in _GRPC_ROLES},
            **{f"WEED_GRPC_{role}_KEY": str(self._key) for role in _GRPC_ROLES},
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "GOMEMLIMIT": _MEMORY_LIMIT,
            "TMPDIR": str(self.home),
        }

    @property
    def _certificate(self) -> Path:
        return self.home / "grpc.crt"

    @property
    def _key(self) -> Path:
        return self.home / "grpc.key"

    @property
    def _data(self) -> Path:
        return self.home / "data"

    def _prepare(self) -> None:
        self._data.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_pair(certificate=self._certificate, key=self._key)
        # It remembers the flags of its last start, and lets them win over new ones.
        (self._data / "mini.options").unlink(missing_ok=True)
        self._remove_sockets()

    @property
    def sockets(self) -> list[Path]:
        """Its parts' sockets, which lie in /tmp whatever TMPDIR says."""
        return [
            Path(f"/tmp/seaweedfs-{part}-grpc-{port + PAIR_DISTANCE}.sock")
            for part, port in zip(_PARTS, self.ports, strict=True)
        ]

    def _remove_sockets(self) -> None:
        """They stay there after a kill -9."""
        for socket in self.sockets:
            with contextlib.suppress(PermissionError):
                socket.unlink(missing_ok=True)


def _probe(storage: Storage, endpoint: str, _pid: int) -> None:
    try:
        # First a question without retries: the storage's own take seconds, for a server in use.
        httpx.get(endpoint, timeout=2, trust_env=False)
        storage.ensure_bucket()
    except (httpx.TransportError, StorageUnavailable) as error:
        raise NotReady(str(error)) from error
