"""Opens a Hugging Face folder with safetensors, sharded or not.

The files are mapped, not read: a tensor costs memory when it is asked for.  Pickled weights are
refused, because to unpickle a file is to run it.
"""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from engine.errors import ModelUnusable
from engine.weights.checkpoint import Checkpoint
from engine.weights.digest import files_digest

INDEX = "model.safetensors.index.json"
PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt")


def open_safetensors(folder: Path) -> Checkpoint:
    """Raises ModelUnusable if the folder has no safetensors, or a file is missing or cut off."""
    config = _read_json(folder / "config.json")
    files = _weight_files(folder)
    file_of = {name: file for file in map(_open, files) for name in list(file.keys())}

    def tensor(name: str) -> torch.Tensor:
        loaded: torch.Tensor = file_of[name].get_tensor(name)
        return loaded

    return Checkpoint(
        source=str(folder),
        config=config,
        names=frozenset(file_of),
        tensor=tensor,
        digest=files_digest([folder / "config.json", *files]),
    )


def _weight_files(folder: Path) -> list[Path]:
    if (folder / INDEX).exists():
        index = _read_json(folder / INDEX)
        files = [folder / name for name in sorted(set(index["weight_map"].values()))]
    else:
        files = sorted(folder.glob("*.safetensors"))
    for path in files:
        if not path.is_file():
            raise ModelUnusable(f"{folder}: {INDEX} names {path.name}, but it is not there")
    if not files:
        raise ModelUnusable(_why_no_weights(folder))
    return files


def _why_no_weights(folder: Path) -> str:
    pickles = sorted(path.name for pattern in PICKLES for path in folder.glob(pattern))
    if pickles:
        return (
            f"{folder} has only pickled weights ({pickles[0]}), which could run code when read: "
            "convert them to safetensors"
        )
    return f"{folder} has no *.safetensors files"


def _open(path: Path) -> Any:
    try:
        return safe_open(path, framework="pt")
    except (SafetensorError, OSError) as error:
        raise ModelUnusable(f"{path} is truncated or not a safetensors file ({error})") from error


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ModelUnusable(f"{path} is missing") from error
    except (OSError, ValueError) as error:
        raise ModelUnusable(f"{path} cannot be read as JSON ({error})") from error
    if not isinstance(content, dict):
        raise ModelUnusable(f"{path} does not hold a JSON object")
    return content
