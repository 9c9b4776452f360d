"""What docker/ starts is what there is: commands, settings, times, ports, users."""

import importlib.util
import re
from datetime import timedelta
from typing import Any

import pytest
import typer
from fastapi.routing import APIRoute
from pydantic import BaseModel, TypeAdapter
from pydantic_settings import BaseSettings

from api import __main__ as api_program
from api.routes import operations
from api.settings import ApiSettings
from cli.main import app
from cli.settings import CommandSettings
from jobs.secrets import Secrets
from jobs.settings import read
from tests.unit.docker import deployments
from tests.unit.docker.deployments import DOCKER, OURS, Started, container, pods
from worker.control import __main__ as control_program
from worker.inference import program as inference_program
from worker.settings import ControlSettings, DrainSettings, InferenceSettings

SETTINGS: dict[str, type[BaseSettings]] = {
    "api": ApiSettings,
    "control": ControlSettings,
    "inference": InferenceSettings,
    "migrate": CommandSettings,
}
EVERYTHING = deployments.everything()
started = pytest.mark.parametrize("started", EVERYTHING, ids=str)


def names(settings: type[BaseModel]) -> set[str]:
    """The variables that a process may be told."""
    found = set()
    for group, field in settings.model_fields.items():
        kinds = [field.annotation, *getattr(field.annotation, "__args__", ())]
        models = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)]
        inner = [f"{group}__{name}" for model in models for name in model.model_fields]
        found |= {name.upper() for name in inner or [group]}
    return found


def test_each_of_our_processes_is_started_everywhere() -> None:
    places = {(each.where, each.role) for each in EVERYTHING}

    assert places == {(where, role) for where in ("compose", "kubernetes") for role in OURS}


@started
def test_the_command_is_one_of_ours(started: Started) -> None:
    match started.command:
        case ("python", "-m", module, *options):
            assert importlib.util.find_spec(f"{module}.__main__") is not None
            assert not options or module == "api"
        case ("gristmill", command):
            assert command in typer.main.get_group(app).commands
        case other:
            pytest.fail(f"not ours: {other}")


@started
def test_every_variable_is_a_setting_and_none_is_missing(
    monkeypatch: pytest.MonkeyPatch, started: Started
) -> None:
    known = set[str]().union(*(names(settings) for settings in SETTINGS.values()))
    for name, value in started.env.items():
        filled = re.sub(r"\$\{\w+:\?\}", "filled-in", value)
        monkeypatch.setenv(name, Secrets.generate_key() if name == "SECRETS__KEY" else filled)

    settings = read(SETTINGS[started.role])

    assert started.env.keys() <= known
    assert settings.model_fields_set


def test_a_misspelt_variable_would_be_noticed() -> None:
    assert {"DATABASE__URL", "DRAIN__GRACE", "THREADS"} <= (
        names(InferenceSettings) | names(ControlSettings)
    )
    assert "DRAIN__GRACES" not in names(InferenceSettings)


@started
def test_each_has_the_time_to_end_that_its_code_takes(started: Started) -> None:
    drain = TypeAdapter(timedelta).validate_python(
        started.env.get("DRAIN__GRACE", DrainSettings().grace)
    )
    needed = {
        "migrate": 0.0,
        "api": api_program._GRACE,
        "control": control_program._GRACE,
        "inference": drain.total_seconds() + inference_program._MARGIN,
    }

    assert (started.grace or 0) >= needed[started.role]


def test_the_time_that_the_service_takes_to_forget_an_api_is_counted_too() -> None:
    before = container("api")["lifecycle"]["preStop"]["exec"]["command"]

    grace = pods()["api"]["spec"]["terminationGracePeriodSeconds"]

    assert before[0] == "sleep"
    assert grace >= int(before[1]) + api_program._GRACE


def test_probes_ask_what_answers() -> None:
    routes = {route.path for route in operations.router.routes if isinstance(route, APIRoute)}

    for role in ("api", "control", "inference"):
        asked = container(role)
        ports = {port["name"] for port in asked["ports"]}
        for probe in ("readinessProbe", "livenessProbe"):
            if probe in asked:
                get = asked[probe]["httpGet"]
                assert get["path"] in (routes if role == "api" else {"/metrics"})
                assert get["port"] in ports


def test_what_is_scraped_is_what_is_listened_on() -> None:
    (settings,) = deployments.kubernetes("settings.yaml")
    workers = int(settings["data"]["METRICS__PORT"])
    listening = {"api": 8000, "control": workers, "inference": workers}
    command = container("api")["command"]

    assert command[command.index("--port") + 1] == str(listening["api"])
    for role, port in listening.items():
        assert [each["containerPort"] for each in container(role)["ports"]] == [port]
        assert pods()[role]["metadata"]["annotations"]["prometheus.io/port"] == str(port)
    scraped = (DOCKER / "prometheus" / "prometheus.yaml").read_text(encoding="utf-8")
    assert re.findall(r"names: \[(\w+)\], type: A, port: (\d+)", scraped) == [
        (role, str(port)) for role, port in listening.items()
    ]


def test_pods_run_as_the_images_user_and_write_to_their_volumes_alone() -> None:
    (hardening,) = deployments.kubernetes("hardening.yaml")
    set_to = {change["path"].rpartition("/")[2]: change["value"] for change in hardening[2:]}
    pod, contained = hardening[0]["value"], hardening[1]["value"]
    (made,) = [line for line in deployments.dockerfile() if "useradd" in line]
    (kustomization,) = deployments.kubernetes("kustomization.yaml")

    assert f"--uid {pod['runAsUser']} " in made
    assert pod["runAsNonRoot"] is True
    assert contained["readOnlyRootFilesystem"] is True
    assert set_to == {"automountServiceAccountToken": False, "enableServiceLinks": False}
    hardened = {patch["target"]["kind"] for patch in kustomization["patches"]}
    assert hardened == {"Deployment", "Job"}
    for role in OURS:
        mounted = {mount["mountPath"] for mount in container(role)["volumeMounts"]}
        assert "/tmp" in mounted


def test_every_name_leads_to_what_there_is() -> None:
    found: list[dict[str, Any]] = deployments.manifests()
    apps = {pod.get("metadata", {}).get("labels", {}).get(_NAME) for pod in pods().values()} - {
        None
    }
    (scaled,) = [each["spec"] for each in found if each["kind"] == "ScaledObject"]
    (network,) = [each["spec"] for each in found if each["kind"] == "NetworkPolicy"]
    selected = {
        each["spec"]["selector"].get("matchLabels", each["spec"]["selector"])[_NAME]
        for each in found
        if each["kind"] in ("Deployment", "Service", "PodDisruptionBudget")
    }
    labelled = {
        each["metadata"]["name"]: each["metadata"]["labels"][_NAME]
        for each in found
        if each["kind"] in ("Deployment", "Job")
    }
    (walled,) = network["podSelector"]["matchExpressions"]

    assert selected == apps
    assert all(name == label for name, label in labelled.items())
    assert set(walled["values"]) == apps - {"gristmill-api"}
    assert scaled["scaleTargetRef"]["name"] in apps
    env = {each["name"]: each["value"] for each in container("inference")["env"]}
    assert f'{{model="{env["MODEL__NAME"]}"}}' in scaled["triggers"][0]["metadata"]["query"]


_NAME = "app.kubernetes.io/name"


def test_control_is_never_scaled_to_zero_and_inference_by_its_scaler_alone() -> None:
    replicas = {
        each["metadata"]["name"]: each["spec"].get("replicas")
        for each in deployments.manifests()
        if each["kind"] == "Deployment"
    }

    assert replicas["gristmill-control"] >= 2
    assert replicas["gristmill-api"] >= 2
    assert replicas["gristmill-inference"] is None


def test_what_compose_mounts_is_there() -> None:
    mounts = [
        mount.split(":")[0]
        for service in deployments.compose()["services"].values()
        for mount in service.get("volumes", ())
    ]
    files = [mount for mount in mounts if mount.startswith("./")]

    assert files
    assert [file for file in files if not (DOCKER / file).exists()] == []
