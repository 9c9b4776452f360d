"""Structured output: which tokens may come next, so that a completion's text obeys a grammar.

The grammars are llguidance's, which is loaded with the first request that needs one.  A grammar is
compiled once for all requests that name it.  Masks are computed on threads of their own, begun as
soon as a token is known, while the next step's forward runs.  Requests that have said the same so
far in the same grammar share one mask: the library does not tell when two ways lead to one state.
What a grammar may cost is bounded in units of work and not of time, so that a busy machine refuses
nothing that an idle one takes.
"""

import json
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from hashlib import blake2b
from typing import TYPE_CHECKING, Generic, TypeVar

from engine.ecma_patterns import in_ascii
from engine.errors import EngineError
from engine.requests import Grammar, Refusal

if TYPE_CHECKING:
    from llguidance import LLMatcher, LLTokenizer

MAX_GRAMMAR_BYTES = 64 * 1024
_MAX_SYMBOLS = 40_000  # half a second to compile, at worst
_MAX_STEP_ITEMS = 10_000  # of the parser, for one token
_COMPILED = 256
_MASKS = 1024
_THREADS = 4

_PARAMS = {"json_schema": "response_format", "regex": "guided_regex", "choice": "guided_choice"}

_Value = TypeVar("_Value")


class GrammarRefused(EngineError):
    """The grammar cannot be used.  The message is one sentence for the client."""


class Grammars:
    """tokenizer_json: called once, when the first grammar comes
    num_tokens: of masks: as many as the model or the tokenizer has, whichever has more
    """

    def __init__(
        self, tokenizer_json: Callable[[], str], *, num_tokens: int, eos_token_ids: frozenset[int]
    ) -> None:
        self._tokenizer_json = tokenizer_json
        self._num_tokens = num_tokens
        self._eos_token_ids = eos_token_ids
        self._tokenizer: LLTokenizer | None = None
        self._compiled: _Recent[LLMatcher] = _Recent(_COMPILED)
        self._masks: _Recent[Future[bytes]] = _Recent(_MASKS)
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="grammar")

    def refuse(self, grammar: Grammar) -> Refusal | None:
        """Why no text can be held to the grammar, if so."""
        try:
            self._matcher(grammar)
        except GrammarRefused as refusal:
            return Refusal("invalid_grammar", str(refusal), _PARAMS[grammar.kind])
        except ImportError:
            message = (
                "Structured output needs the package llguidance, which is not installed where "
                "this model runs."
            )
            return Refusal("grammar_not_supported", message, _PARAMS[grammar.kind])
        return None

    def start(self, grammar: Grammar) -> "GrammarState":
        """The state before the first token.  Raises GrammarRefused."""
        matcher = self._matcher(grammar).deep_copy()
        name = f"{grammar.kind} {grammar.text}".encode("utf-8", "surrogatepass")
        return GrammarState(matcher, blake2b(name).digest(), self._mask_of)

    def _matcher(self, grammar: Grammar) -> "LLMatcher":
        return self._compiled.get(grammar, lambda: self._compile(grammar))

    def _compile(self, grammar: Grammar) -> "LLMatcher":
        from llguidance import LLMatcher, LLParserLimits

        if len(grammar.text.encode("utf-8", "surrogatepass")) > MAX_GRAMMAR_BYTES:
            raise GrammarRefused(f"The grammar has over {MAX_GRAMMAR_BYTES:,} bytes.")
        limits = LLParserLimits(
            max_grammar_size=_MAX_SYMBOLS, step_max_items=_MAX_STEP_ITEMS, verbose_errors=False
        )
        source = _source(grammar)
        matcher = LLMatcher(self._load_tokenizer(), source, log_level=0, limits=limits)
        if matcher.is_error():
            reason = " ".join(matcher.get_error().split())[:300]
            raise GrammarRefused(f"The grammar cannot be used: {reason}")
        return matcher

    def _load_tokenizer(self) -> "LLTokenizer":
        from llguidance import LLTokenizer

        if self._tokenizer is None:
            try:
                self._tokenizer = LLTokenizer(
                    self._tokenizer_json(),
                    n_vocab=self._num_tokens,
                    eos_token=sorted(self._eos_token_ids) or None,
                )
            except ValueError as error:
                message = f"This model's tokenizer allows no structured output: {error}"
                raise GrammarRefused(message) from error
        return self._tokenizer

    def _mask_of(self, key: bytes, matcher: "LLMatcher") -> Future[bytes]:
        return self._masks.get(key, lambda: self._threads.submit(matcher.compute_bitmask))


class GrammarState:
    """Where one completion stands in its grammar."""

    def __init__(
        self,
        matcher: "LLMatcher",
        key: bytes,
        mask_of: Callable[[bytes, "LLMatcher"], Future[bytes]],
    ) -> None:
        self._matcher = matcher
        self._key = key
        self._mask_of = mask_of
        self._mask = mask_of(key, matcher)

    def allowed(self) -> bytes:
        """A bit for each token, the lowest first: whether it may come next.

        Raises GrammarRefused if finding out would be too much work.
        """
        mask = self._mask.result()
        self._check()
        return mask

    def advance(self, token: int) -> bool:
        """Take the token that was chosen.  Returns whether the text is complete.

        Raises GrammarRefused if finding out would be too much work.
        """
        self._mask.result()  # the matcher must not change while a thread reads it
        self._matcher.consume_token(token)
        self._check()
        if self._matcher.is_stopped():
            return True
        # What may come next depends on the grammar and the tokens so far, and on nothing else.
        self._key = blake2b(self._key + token.to_bytes(4, "little"), digest_size=16).digest()
        self._mask = self._mask_of(self._key, self._matcher)
        return False

    def _check(self) -> None:
        if self._matcher.is_error():
            raise GrammarRefused(f"The grammar is too complex: {self._matcher.get_error()[:300]}")


class _Recent(Generic[_Value]):
    """The values that were asked for most recently."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._values: dict[Hashable, _Value] = {}

    def get(self, key: Hashable, make: Callable[[], _Value]) -> _Value:
        value = self._values.pop(key) if key in self._values else make()
        self._values[key] = value
        if len(self._values) > self._capacity:
            del self._values[next(iter(self._values))]
        return value


def _source(grammar: Grammar) -> str:
    from llguidance import LLMatcher

    try:
        match grammar.kind:
            case "regex":
                return LLMatcher.grammar_from_regex(grammar.text)
            case "choice":
                choices = json.loads(grammar.text)
                if not choices:
                    raise GrammarRefused("There is nothing to choose from.")
                return "start: " + " | ".join(
                    json.dumps(text, ensure_ascii=False) for text in choices
                )
            case "json_schema":
                # Never a run of white space without end, which a small model likes to write.
                return LLMatcher.grammar_from_json_schema(
                    in_ascii(grammar.text), overrides={"whitespace_pattern": r"[\x20\x0A]{0,16}"}
                )
    except (ValueError, TypeError, RecursionError) as error:
        raise GrammarRefused(f"The grammar cannot be used: {error}") from error
