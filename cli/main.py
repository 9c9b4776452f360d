"""The command `gristmill`.

Every command either does what it says and exits 0, or prints one sentence that says what failed
and what to do, and exits with something else.
"""

import sys
from enum import StrEnum
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from sqlalchemy.exc import OperationalError, ProgrammingError

from cli import batches, bench, deployment, keys, tenants
from cli.errors import CommandFailed, MissingPart
from cli.interrupts import Interrupted
from cli.plan import plan
from cli.stack import Model
from cli.submit import submit
from cli.top import top
from cli.up import up as run_up
from cli.verify import verify
from engine.errors import EngineError
from engine.finding import find_model
from jobs.database import cause
from jobs.errors import JobsError
from jobs.settings import SettingsUnusable
from migrations.upgrade import upgrade

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.add_typer(batches.app, name="batches")
app.add_typer(keys.app, name="keys")
app.add_typer(tenants.app, name="tenants")
app.add_typer(bench.app, name="bench")


class EngineChoice(StrEnum):
    REAL = "real"
    ECHO = "echo"


DataDir = Annotated[Path, typer.Option(help="Where the stack's data, logs and passwords lie.")]
Port = Annotated[
    int | None,
    typer.Option(min=1, max=65535, help="The API's; 8000 or a free one if not given."),
]
ModelName = Annotated[
    str, typer.Option(help="A folder with safetensors, a .gguf file, or a bundled model's name.")
]
Workers = Annotated[int, typer.Option(min=1, help="How many inference workers to run.")]
Engine = Annotated[EngineChoice, typer.Option(help="echo gives prompts back, without a model.")]

_STANDARD_DIR = Path(".gristmill")
_STANDARD_MODEL = "smollm2-135m-instruct"


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"gristmill {version('gristmill')}")
        raise typer.Exit


@app.callback()
def _gristmill(
    _: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Batch inference for open language models."""


@app.command()
def up(
    *,
    data_dir: DataDir = _STANDARD_DIR,
    port: Port = None,
    model: ModelName = _STANDARD_MODEL,
    workers: Workers = 1,
    engine: Engine = EngineChoice.REAL,
) -> None:
    """Run everything on this machine until Ctrl-C: servers, API, dashboard, workers."""
    run_up(data_dir, Console(), model=model_of(model, engine), num_workers=workers, port=port)


@app.command()
def demo(
    *,
    engine: Engine = EngineChoice.REAL,
    data_dir: Annotated[
        Path | None, typer.Option(help="Keep what it makes here, not in a temporary folder.")
    ] = None,
) -> None:
    """Run the main job once on a small real model, then stop everything."""
    try:
        # Here, for it is a development extra, and slow to import beside every other command.
        from cli.demo import run as run_demo
    except ImportError as error:
        raise MissingPart(f"{error}; run `pip install 'gristmill[dev,embedded]'`") from error
    run_demo(Console(), engine=engine, data_dir=data_dir)


@app.command()
def migrate(*, data_dir: DataDir = _STANDARD_DIR) -> None:
    """Bring the database of DATABASE__URL to this version's schema."""
    upgrade(deployment.database_url(data_dir))


for command in (submit, verify, top, plan):  # in the order in which --help lists them
    app.command()(command)


def model_of(model: str, engine: EngineChoice) -> Model:
    """A path gives its last part as the name; any other name is that of a bundled model.

    Raises ModelUnusable, before anything has started.
    """
    path = Path(model)
    if engine is EngineChoice.REAL:
        find_model(model)
    if not path.exists():
        return Model(name=model, path=model, engine=engine)
    name = path.stem if path.suffix == ".gguf" else path.resolve().name
    return Model(name=name, path=str(path.resolve()), engine=engine)


def main() -> None:
    try:
        app(prog_name="gristmill")
    except Interrupted:
        sys.exit(130)
    except (CommandFailed, EngineError, JobsError, SettingsUnusable) as error:
        _fail(str(error))
    except OperationalError as error:
        _fail(f"the database does not answer: {error.orig}")
    except ProgrammingError as error:
        _fail(
            "the database has not the tables of this version; run `gristmill migrate`:"
            f" {cause(error)}"
        )
    except OSError as error:  # a path, mostly, that cannot be read or written
        _fail(f"{error.filename}: {error.strerror}" if error.filename else str(error))


def _fail(sentence: str) -> None:
    print(f"gristmill: {' '.join(sentence.split())}", file=sys.stderr)
    sys.exit(1)
