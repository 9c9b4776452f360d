"""Our processes as docker/ starts them: each one's command, environment and time to end."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

DOCKER = Path(__file__).parents[3] / "docker"
KUBERNETES = DOCKER / "kubernetes"
OURS = {"migrate", "api", "control", "inference"}


@dataclass(frozen=True, slots=True)
class Started:
    """`grace`: seconds from SIGTERM to SIGKILL; None: nobody says."""

    where: str
    role: str
    command: tuple[str, ...]
    env: dict[str, str]
    grace: float | None

    def __str__(self) -> str:
        return f"{self.role} of {self.where}"


def everything() -> list[Started]:
    return [*_of_compose(), *_of_kubernetes()]


def compose() -> dict[str, Any]:
    told: dict[str, Any] = yaml.safe_load((DOCKER / "compose.yaml").read_text(encoding="utf-8"))
    return told


def kubernetes(name: str) -> list[Any]:
    """The documents of a file."""
    return [*yaml.safe_load_all((KUBERNETES / name).read_text(encoding="utf-8"))]


def manifests() -> list[dict[str, Any]]:
    """All that kustomization.yaml puts together."""
    (kustomization,) = kubernetes("kustomization.yaml")
    return [found for name in kustomization["resources"] for found in kubernetes(name)]


def pods() -> dict[str, dict[str, Any]]:
    """The pod of each role."""
    return {
        found["metadata"]["name"].removeprefix("gristmill-"): found["spec"]["template"]
        for found in manifests()
        if found["kind"] in ("Deployment", "Job")
    }


def container(role: str) -> dict[str, Any]:
    (only,) = pods()[role]["spec"]["containers"]
    assert isinstance(only, dict)
    return only


def _of_compose() -> Iterator[Started]:
    for role in sorted(OURS):
        service = compose()["services"][role]
        command = service.get("command") or _default_command()
        env = {name: str(value) for name, value in service["environment"].items()}
        yield Started("compose", role, tuple(command), env, _seconds(service))


def _of_kubernetes() -> Iterator[Started]:
    (settings,), (secret,) = kubernetes("settings.yaml"), kubernetes("secret.example.yaml")
    shared = {"configMapRef": settings["data"], "secretRef": secret["stringData"]}
    for role, pod in pods().items():
        asked = container(role)
        env: dict[str, str] = {}
        for source in asked["envFrom"]:
            (kind,) = source
            env |= shared[kind]
        env |= {each["name"]: each["value"] for each in asked.get("env", ())}
        grace = pod["spec"].get("terminationGracePeriodSeconds")
        yield Started("kubernetes", role, tuple(asked["command"]), env, grace)


def dockerfile() -> list[str]:
    return (DOCKER / "Dockerfile").read_text(encoding="utf-8").splitlines()


def _default_command() -> list[str]:
    (line,) = [line for line in dockerfile() if line.startswith("CMD ")]
    command: list[str] = yaml.safe_load(line.removeprefix("CMD "))
    return command


def _seconds(service: dict[str, Any]) -> float | None:
    told = service.get("stop_grace_period")
    if told is None:
        return None
    return float(told[:-1]) * {"s": 1, "m": 60}[told[-1]]
