"""The broker: Valkey 9, which speaks the Redis protocol.

It keeps nothing on disk.  Every message is a doorbell, and the sweeper rings again.
"""

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from redis import Redis
from redis.exceptions import RedisError

from cli.ports import HOST
from cli.program import NotReady, Program
from cli.servers import wheels
from cli.settings import inherited

# noeviction: a queue that silently loses its bindings is worse than one that refuses.
_CONFIG = """\
bind {host}
port {port}
requirepass {password}
dir "{home}"
daemonize no
save ""
appendonly no
maxmemory 256mb
maxmemory-policy noeviction
"""


@dataclass(frozen=True, kw_only=True)
class Valkey:
    home: Path
    log: Path
    port: int
    password: str = field(repr=False)

    @property
    def url(self) -> str:
        return f"redis://:{self.password}@{HOST}:{self.port}/0"

    def program(self) -> Program:
        # The password goes by file: a command line can be read by every user of the machine.
        config = self.home / "valkey.conf"
        return Program(
            name="broker",
            argv=(str(wheels.valkey_server()), str(config)),
            env=inherited(),
            cwd=self.home,
            log=self.log,
            prepare=partial(self._write_config, config),
            probe=self._probe,
        )

    def _write_config(self, path: Path) -> None:
        self.home.mkdir(mode=0o700, parents=True, exist_ok=True)
        text = _CONFIG.format(host=HOST, port=self.port, password=self.password, home=self.home)
        path.touch(mode=0o600)
        path.write_text(text, encoding="utf-8")

    def _probe(self, _pid: int) -> None:
        try:
            with Redis.from_url(self.url, socket_timeout=2, socket_connect_timeout=2) as client:
                client.ping()
        except RedisError as error:
            raise NotReady(str(error)) from error
