"""Text to token ids and back, and chat messages to text.

Wraps a Hugging Face fast tokenizer.  This is the only place where a chat template is rendered:
`apply_chat_template` runs it in jinja2's ImmutableSandboxedEnvironment, because a template comes
with the model and its messages come from clients.
"""

from collections.abc import Sequence
from typing import Any

from engine.requests import Message, Tool
from engine.token_bytes import TokenBytes


class Tokenizer:
    """eos_token_ids: the tokens with which the model ends a completion."""

    def __init__(self, hugging_face: Any, eos_token_ids: frozenset[int]) -> None:
        self._hugging_face = hugging_face
        self._backend = hugging_face.backend_tokenizer
        self._token_bytes = TokenBytes(self._backend)
        self.eos_token_ids = eos_token_ids

    @property
    def num_tokens(self) -> int:
        """Sometimes more than the model has rows for: images, say, have tokens too."""
        count: int = self._backend.get_vocab_size()
        return count

    @property
    def has_chat_template(self) -> bool:
        return bool(self._hugging_face.chat_template)

    @property
    def template_takes_tools(self) -> bool:
        return "tools" in str(self._hugging_face.chat_template)

    def render_chat(self, messages: Sequence[Message], tools: Sequence[Tool] = ()) -> str:
        """Return the text at whose end the assistant's answer begins.

        Raises whatever the template raises: it is not our code.
        """
        text: str = self._hugging_face.apply_chat_template(
            list(messages), tools=list(tools) or None, tokenize=False, add_generation_prompt=True
        )
        return text

    def encode(self, texts: Sequence[str], *, add_special_tokens: bool) -> list[list[int]]:
        """Encode all texts at once.  A rendered chat has its special tokens already."""
        encodings = self._backend.encode_batch(list(texts), add_special_tokens=add_special_tokens)
        return [encoding.ids for encoding in encodings]

    def decode(self, token_ids: Sequence[int]) -> str:
        """Special tokens are left out; bytes that are not UTF-8 become U+FFFD."""
        text: str = self._backend.decode(list(token_ids), skip_special_tokens=True)
        return text

    def decode_batch(self, all_token_ids: Sequence[Sequence[int]]) -> list[str]:
        """The texts of several, decoded at once."""
        texts: list[str] = self._backend.decode_batch(
            [list(token_ids) for token_ids in all_token_ids], skip_special_tokens=True
        )
        return texts

    def bytes_of(self, token_id: int) -> bytes:
        """What the token adds to a text: also half a character, also a special token's name."""
        return self._token_bytes.of(token_id)

    def to_json(self) -> str:
        """The whole tokenizer, in the format of `tokenizer.json`."""
        backend: str = self._backend.to_str()
        return backend
