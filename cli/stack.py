"""The whole stack on one machine: the servers, the schema, a first key, our own programs.

Nothing is remembered but what lies in the data directory, so the next start continues there.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cli import logs, our_programs, ports
from cli.access import Access, first_access
from cli.errors import PortInUse
from cli.program import Program
from cli.servers.embedded import Embedded, embedded
from cli.supervisor import Supervisor
from jobs.database import connect, sessions_of
from jobs.secrets import Secrets
from migrations.upgrade import upgrade

_USUAL_PORT = 8000


@dataclass(frozen=True, slots=True)
class Model:
    """What the workers run: the name that jobs use, where its weights are, and which engine."""

    name: str
    path: str
    engine: str


@dataclass(frozen=True, slots=True)
class Stack:
    """One that is ready."""

    api_url: str
    access: Access = field(repr=False)
    servers: Embedded
    worker_ports: Sequence[int]  # of each worker's metrics

    @property
    def dashboard_url(self) -> str:
        return f"{self.api_url}/dashboard"

    @property
    def metrics_urls(self) -> list[str]:
        """What Prometheus reads: the API's own and the queue's numbers, then each engine's."""
        workers = [f"http://{ports.HOST}:{port}" for port in self.worker_ports]
        return [f"{base}/metrics" for base in (self.api_url, *workers)]


def bring_up(
    folder: Path, supervisor: Supervisor, *, model: Model, num_workers: int, port: int | None
) -> Stack:
    """Start everything under `supervisor`, which is also the one to stop it, however this ends.

    Raises CommandFailed if something does not come up, and Interrupted.
    """
    api_port = _choose_port(port)
    servers = embedded(folder)
    _start(supervisor, servers.programs())

    upgrade(servers.postgres.url)
    sessions = sessions_of(connect(servers.postgres.url, pool_size=1))
    secrets = Secrets(servers.server_key)
    access = first_access(sessions, secrets, memory=folder / "access.json")

    settings = servers.environment() | _model_settings(model)
    worker_ports = ports.free_pairs(num_workers)
    _start(
        supervisor,
        [
            our_programs.api(settings, port=api_port, logs=folder / "logs"),
            our_programs.control(settings, sessions=sessions, logs=folder / "logs"),
            *(
                our_programs.inference(
                    settings | {"METRICS__PORT": str(metrics_port)},
                    name=f"worker-{number}",
                    sessions=sessions,
                    logs=folder / "logs",
                )
                for number, metrics_port in enumerate(worker_ports)
            ),
        ],
    )
    return Stack(f"http://{ports.HOST}:{api_port}", access, servers, worker_ports)


def _choose_port(wanted: int | None) -> int:
    if wanted is None:
        return ports.free_pairs(1, preferred=[_USUAL_PORT])[0]
    if not ports.is_free(wanted):
        raise PortInUse(wanted)
    return wanted


def _start(supervisor: Supervisor, programs: Sequence[Program]) -> None:
    for program in programs:
        logs.rotate(program.log)
    supervisor.start(programs)


def _model_settings(model: Model) -> dict[str, str]:
    return {"MODEL__NAME": model.name, "MODEL__PATH": model.path, "MODEL__ENGINE": model.engine}
