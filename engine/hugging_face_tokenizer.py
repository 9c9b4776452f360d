"""Loads the tokenizer of a Hugging Face folder."""

import json
from pathlib import Path

from engine.errors import ModelUnusable
from engine.tokenizer import Tokenizer


def load_hugging_face_tokenizer(folder: Path) -> Tokenizer:
    """Raises ModelUnusable if the folder has no tokenizer that we can use."""
    from huggingface_hub.errors import StrictDataclassError
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    try:
        loaded = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError, ImportError, KeyError, StrictDataclassError) as error:
        reason = str(error).partition("\n")[0]
        raise ModelUnusable(f"{folder} has no tokenizer that we can load ({reason})") from error
    if not isinstance(loaded, PreTrainedTokenizerFast):
        raise ModelUnusable(f"{folder} has no fast tokenizer (tokenizer.json)")
    return Tokenizer(loaded, _eos_token_ids(folder, loaded.eos_token_id))


def _eos_token_ids(folder: Path, of_tokenizer: int | None) -> frozenset[int]:
    """What any of the files calls an end token: instruct models often name theirs in only one."""
    found = [of_tokenizer]
    for name in ("config.json", "generation_config.json"):
        path = folder / name
        if path.is_file():
            named = json.loads(path.read_text(encoding="utf-8")).get("eos_token_id")
            found += named if isinstance(named, list) else [named]
    return frozenset(token for token in found if token is not None)
