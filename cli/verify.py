"""`gristmill verify`: are these the files of that batch, whole and unchanged?"""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from cli.errors import CommandFailed
from cli.receipt_check import Downloads, differences, read_receipt


def verify(
    receipt: Annotated[Path, typer.Argument(help="As GET /v1/batches/{id}/receipt gives it.")],
    *,
    output: Annotated[Path | None, typer.Option(help="The downloaded output file.")] = None,
    error: Annotated[Path | None, typer.Option(help="The downloaded error file.")] = None,
    input: Annotated[
        Path | None, typer.Option(help="The file that was submitted, to be checked as well.")
    ] = None,
) -> None:
    """Check downloaded files against a batch's receipt, and say what differs."""
    told = read_receipt(receipt)
    files = Downloads(output=output, error=error, input=input)
    found = list(differences(told, files))
    shown = Console(stderr=True)
    for difference in found:
        shown.print(difference, markup=False, highlight=False, soft_wrap=True)
    if found:
        raise CommandFailed(f"these are not the files of {told['batch_id']} as it wrote them")
    print(f"{told['batch_id']}: {told['request_counts']['total']:,} rows, each of them once")
