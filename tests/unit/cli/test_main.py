"""What the command line makes of what is typed."""

from importlib.metadata import version
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.main import EngineChoice, app, model_of
from cli.stack import Model


def test_name_that_is_no_path_is_a_bundled_model() -> None:
    model = model_of("smollm2-135m-instruct", EngineChoice.REAL)

    assert model == Model("smollm2-135m-instruct", "smollm2-135m-instruct", "real")


def test_folder_gives_its_own_name_to_the_model(tmp_path: Path) -> None:
    folder = tmp_path / "Llama-3.2-1B"
    folder.mkdir()
    (folder / "config.json").touch()

    model = model_of(str(folder), EngineChoice.REAL)

    assert model == Model("Llama-3.2-1B", str(folder), "real")


def test_gguf_file_gives_its_name_without_the_suffix(tmp_path: Path) -> None:
    file = tmp_path / "tiny.Q4_1.gguf"
    file.touch()

    model = model_of(str(file), EngineChoice.REAL)

    assert model == Model("tiny.Q4_1", str(file), "real")


def test_the_version_is_that_of_what_is_installed() -> None:
    result = CliRunner().invoke(app, ["--version"])

    assert result.exit_code == 0
    assert result.stdout == f"gristmill {version('gristmill')}\n"


@pytest.mark.parametrize(
    "arguments", [["up", "--workers", "0"], ["up", "--engine", "magic"], ["no"]]
)
def test_what_cannot_be_meant_is_refused_before_anything_starts(arguments: list[str]) -> None:
    result = CliRunner().invoke(app, arguments)

    assert result.exit_code == 2
