"""Small JSON files that hold secrets: whole or absent, and readable by their owner alone."""

import json
import os
from pathlib import Path


def write(path: Path, value: object) -> None:
    fresh = path.with_name(f"{path.name}.new")
    with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(value, file, indent=2)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
