"""Turns requests into token ids, or says why one of them cannot be.

Tokenises all of them as one batch.  Whatever is wrong with one request, be it a template that
raises or a prompt that is too long, is that request's refusal and nobody else's.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

from engine.grammars import Grammars
from engine.param_types import refuse_types
from engine.refusals import (
    refuse_fields,
    refuse_length,
    refuse_named_tokens,
    refuse_params,
    refuse_token_ids,
)
from engine.requests import Refusal, Request
from engine.tokenizer import Tokenizer

log = logging.getLogger(__name__)


class Text(NamedTuple):
    """A prompt still to be encoded.  A rendered chat brings its own special tokens."""

    text: str
    is_chat: bool


Item: TypeAlias = Text | list[int] | Refusal


class Intake:
    def __init__(
        self, tokenizer: Tokenizer, grammars: Grammars, *, vocab_size: int, max_model_len: int
    ) -> None:
        self._tokenizer = tokenizer
        self._grammars = grammars
        self._vocab_size = vocab_size
        self._max_model_len = max_model_len

    def prompts(self, requests: Sequence[Request]) -> list[list[int] | Refusal]:
        """Return each request's prompt as token ids, in order, or its refusal."""
        items = [self._judge(request) for request in requests]
        for chats in (False, True):
            self._encode(items, chats=chats)
        return [self._check(r, item) for r, item in zip(requests, items, strict=True)]

    def max_tokens(self, request: Request, prompt: list[int]) -> int:
        """Completion tokens at most: what it asks for, or all that the context has left."""
        asked = request.params.max_tokens
        return self._max_model_len - len(prompt) if asked is None else asked

    def _judge(self, request: Request) -> Item:
        try:
            return self._refuse(request) or self._read(request)
        except Exception:  # whatever one request holds, it must not stop the others
            log.exception("request not read", extra={"request_id": request.request_id})
            return Refusal("internal_error", "The request could not be read.", ours=True)

    def _refuse(self, request: Request) -> Refusal | None:
        params = request.params
        return (
            refuse_types(request)
            or refuse_fields(request)
            or refuse_params(params)
            or refuse_named_tokens(params, vocab_size=self._vocab_size)
            or (self._grammars.refuse(params.grammar) if params.grammar else None)
        )

    def _read(self, request: Request) -> Item:
        prompt = request.prompt
        if isinstance(prompt, str):
            return Text(prompt, is_chat=False)
        token_ids = [t for t in prompt if isinstance(t, int) and not isinstance(t, bool)]
        messages = [message for message in prompt if isinstance(message, Mapping)]
        if len(token_ids) == len(prompt):
            return token_ids
        if len(messages) < len(prompt):
            message = "The prompt must be text, or token ids only, or messages only."
            return Refusal("invalid_prompt", message, "prompt")
        if not self._tokenizer.has_chat_template:
            message = "This model has no chat template: send a prompt, not messages."
            return Refusal("no_chat_template", message, "messages")
        if request.tools and not self._tokenizer.template_takes_tools:
            message = "This model's chat template takes no tools: leave them out."
            return Refusal("tools_not_supported", message, "tools")
        try:
            return Text(self._tokenizer.render_chat(messages, request.tools), is_chat=True)
        except Exception as error:  # the template is the model's code: it may raise anything
            log.warning("chat template failed", extra={"request_id": request.request_id})
            message = f"The model's chat template refuses these messages: {error}"
            return Refusal("invalid_messages", message, "messages")

    def _encode(self, items: list[Item], *, chats: bool) -> None:
        """Replace the texts among the items, those of chats or the others, by their token ids."""
        texts = {
            index: item.text
            for index, item in enumerate(items)
            if isinstance(item, Text) and item.is_chat is chats
        }
        for index, encoded in zip(texts, self._encoded(list(texts.values()), chats), strict=True):
            items[index] = encoded

    def _encoded(self, texts: list[str], is_chat: bool) -> Sequence[list[int] | Refusal]:
        try:
            return self._tokenizer.encode(texts, add_special_tokens=not is_chat)
        except (TypeError, ValueError):
            if len(texts) == 1:
                message = "The prompt is not Unicode text: it has half of a surrogate pair."
                return [Refusal("invalid_prompt", message, "prompt")]
            # One of them is not text, and the tokenizer does not say which.
            return [self._encoded([text], is_chat)[0] for text in texts]

    def _check(self, request: Request, item: Item) -> list[int] | Refusal:
        assert not isinstance(item, Text), "every text has been encoded"
        if isinstance(item, Refusal):
            return item
        return (
            refuse_token_ids(item, vocab_size=self._vocab_size)
            or refuse_length(len(item), request, max_model_len=self._max_model_len)
            or item
        )
