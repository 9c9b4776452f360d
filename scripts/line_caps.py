"""Keeps functions and files small: `python -m scripts.line_caps`."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

FILE_CAP = 350
FUNCTION_CAP = 40
KERNEL_CAP = 120  # one kernel is one thought, and honestly longer

_FREE = ("migrations/versions/",)  # a migration is history


def main() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.py"],
        check=True,
        capture_output=True,
        text=True,
    )
    names = [name for name in listed.stdout.splitlines() if not name.startswith(_FREE)]
    over = [line for name in names if Path(name).exists() for line in excesses(Path(name))]
    sys.exit("\n".join(over) if over else 0)


def excesses(path: Path) -> Iterator[str]:
    """One line for each thing in the file that is too long."""
    source = path.read_text(encoding="utf-8")
    length = len(source.splitlines())
    if length > FILE_CAP:
        yield f"{path}: {length} lines, at most {FILE_CAP}"
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _excess(path, node)


def _excess(path: Path, function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    cap = KERNEL_CAP if path.parts[0] == "kernels" else FUNCTION_CAP
    length = (function.end_lineno or function.lineno) - function.lineno + 1
    if length > cap:
        yield f"{path}:{function.lineno}: {function.name} has {length} lines, at most {cap}"


if __name__ == "__main__":
    main()
