"""Builds the tokenizer that a GGUF describes in its metadata.

A GGUF names its rule for cutting text into words (`tokenizer.ggml.pre`) but does not contain it, so
the rules live here.  transformers can read a GGUF's vocabulary too, but it takes GPT-2's rule
whatever the file names, which gives other ids wherever digits follow spaces.
"""

from typing import Any

from tokenizers import (
    AddedToken,
    Regex,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
)
from tokenizers import Tokenizer as Backend

from engine.errors import ModelUnusable
from engine.sentencepiece_backend import adds_leading_space, sentencepiece_backend
from engine.tokenizer import Tokenizer
from engine.weights.gguf_file import GgufFile

# tokenizer.ggml.token_type
CONTROL = 3
USER_DEFINED = 4

LLAMA3_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

# Qwen takes digits one by one.
QWEN2_WORDS = LLAMA3_WORDS.replace(r"\p{N}{1,3}", r"\p{N}")


def load_gguf_tokenizer(file: GgufFile) -> Tokenizer:
    """Raises ModelUnusable for a kind of tokenizer that we cannot build exactly."""
    from transformers import PreTrainedTokenizerFast

    tokens = file.require("tokenizer.ggml.tokens")
    special = {
        f"{role}_token": tokens[file.require(key)]
        for role in ("bos", "eos")
        if (key := f"tokenizer.ggml.{role}_token_id") in file.keys
    }
    loaded = PreTrainedTokenizerFast(
        tokenizer_object=_backend(file, tokens),
        chat_template=file.get("tokenizer.chat_template"),
        **special,
    )
    return Tokenizer(loaded, _eos_token_ids(file))


def _backend(file: GgufFile, tokens: list[str]) -> Backend:
    match file.require("tokenizer.ggml.model"):
        case "gpt2":
            backend, has_bos = _byte_level_backend(file, tokens), False
            spaced = False
        case "llama":
            backend, has_bos = sentencepiece_backend(file, tokens), True
            spaced = not adds_leading_space(file)
        case kind:
            raise ModelUnusable(
                f"{file.path} has a tokenizer of kind {kind!r}, which we do not build from a "
                "GGUF: use the model's safetensors"
            )
    types = file.require("tokenizer.ggml.token_type")
    for kind, special in ((CONTROL, True), (USER_DEFINED, False)):
        added = [token for token, of_kind in zip(tokens, types, strict=True) if of_kind == kind]
        # Gemma has pieces that are runs of spaces, written as its pieces write them.
        normalized = spaced and not special
        backend.add_tokens([AddedToken(t, special=special, normalized=normalized) for t in added])
    if file.get("tokenizer.ggml.add_bos_token", has_bos):
        bos = file.require("tokenizer.ggml.bos_token_id")
        backend.post_processor = processors.TemplateProcessing(
            single=f"{tokens[bos]} $A", special_tokens=[(tokens[bos], bos)]
        )
    return backend


def _byte_level_backend(file: GgufFile, tokens: list[str]) -> Backend:
    pre = file.get("tokenizer.ggml.pre", "gpt-2")
    merges = [tuple(merge.split(" ")) for merge in file.require("tokenizer.ggml.merges")]
    vocab = {token: index for index, token in enumerate(tokens)}
    backend = Backend(models.BPE(vocab=vocab, merges=merges, ignore_merges=pre == "llama-bpe"))
    if pre == "qwen2":
        backend.normalizer = normalizers.NFC()
    backend.pre_tokenizer = _word_rule(file, pre)
    backend.decoder = decoders.ByteLevel()
    return backend


def _word_rule(file: GgufFile, name: str) -> Any:
    gpt2 = pre_tokenizers.ByteLevel(add_prefix_space=False)
    match name:
        case "gpt-2":
            return gpt2
        case "smollm":
            digits = pre_tokenizers.Digits(individual_digits=True)
            return pre_tokenizers.Sequence([digits, gpt2])
        case "llama-bpe":
            return _by_expression(LLAMA3_WORDS)
        case "qwen2":
            return _by_expression(QWEN2_WORDS)
    raise ModelUnusable(
        f"{file.path} cuts text into words as {name!r}; we know gpt-2, smollm, llama-bpe and "
        "qwen2: use the model's safetensors"
    )


def _by_expression(expression: str) -> Any:
    words = pre_tokenizers.Split(Regex(expression), behavior="isolated")
    to_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return pre_tokenizers.Sequence([words, to_bytes])


def _eos_token_ids(file: GgufFile) -> frozenset[int]:
    keys = ("tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id")
    return frozenset(file.require(key) for key in keys if key in file.keys)
