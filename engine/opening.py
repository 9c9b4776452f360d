"""From the name of a model to its weights and tokenizer."""

from engine.finding import find_model
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
    path = find_model(model)
    if path.is_dir():
        return open_safetensors(path), load_hugging_face_tokenizer(path)
    file = GgufFile(path)
    opened = open_gguf(file), load_gguf_tokenizer(file)
    file.forget("tokenizer.")  # an object for each token and each merge: 200 MB
    return opened
