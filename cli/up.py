"""`gristmill up`: one stack, from taking its data directory to the end of its last process."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from rich.console import Console

from cli import data_dir, logs, up_file
from cli.interrupts import Interrupted, Interrupts
from cli.stack import Model, Stack, bring_up
from cli.supervisor import Supervisor


def up(folder: Path, console: Console, *, model: Model, num_workers: int, port: int | None) -> None:
    """Bring the stack up in `folder` and keep it up until the user ends it.

    Raises CommandFailed if that cannot be done, and Interrupted if the user ends it before it is
    ready.  In any case nothing of it runs any more.
    """
    interrupts = Interrupts()
    with interrupts.noted(), data_dir.opened(folder) as home:
        supervisor = Supervisor(interrupts)
        facts = home / up_file.NAME
        facts.unlink(missing_ok=True)  # of a predecessor that was killed
        try:
            with console.status("Starting: servers, API, control, workers …"):
                stack = bring_up(home, supervisor, model=model, num_workers=num_workers, port=port)
            up_file.write(facts, stack, supervisor.pids())
            _tell(console, stack, facts)
            for line in of_model(model, home / "logs" / "worker-0.log"):
                console.print(line, markup=False, highlight=False, soft_wrap=True)
            console.print("Ready.  Ctrl-C stops it; its data stays.")
            _keep_up(console, supervisor, stack, facts)
        finally:
            facts.unlink(missing_ok=True)
            supervisor.stop()


def _keep_up(console: Console, supervisor: Supervisor, stack: Stack, facts: Path) -> None:
    def restarted(name: str, code: int) -> None:
        console.print(f"{name} had ended (code {code}); it was started again")
        up_file.write(facts, stack, supervisor.pids())

    try:
        supervisor.keep_running(restarted)
    except Interrupted:
        console.print("Stopping …")


def _tell(console: Console, stack: Stack, facts: Path) -> None:
    console.print(f"API        {stack.api_url}/v1")
    console.print(f"API key    {stack.access.api_key}", soft_wrap=True)
    console.print(f"Dashboard  {stack.dashboard_url}")
    console.print(f"All of it  {facts}", soft_wrap=True)
    console.print(f"Logs       {facts.parent / 'logs'}", soft_wrap=True)


def of_model(model: Model, log: Path) -> Iterator[str]:
    """What jobs call the model, where it runs and how much fits, as its first worker's log says."""
    if model.engine != "real":
        yield f"Model      {model.name}: no model, the {model.engine} engine"
        return
    for where in islice(logs.said(log, f"model {model.path}: "), 1):
        yield f"Model      {model.name}: {where}"
    for room in islice(logs.said(log, "KV cache: "), 1):
        yield f"KV pool    {room}"
