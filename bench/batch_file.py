"""The lines that the queue is measured with, and what must come back for them."""

import hashlib
import json
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from typing import Any

from bench.errors import OutputIncomplete

ENDPOINT = "/v1/chat/completions"

_LINE_BYTES = 1000
_NUM_PROMPTS = 4  # interleaved, so that there is something to group
_OUTPUT_TOKENS = 8
_SYSTEM_SENTENCE = (
    "You are reader number {number} of a long report, and answer in one short sentence what the "
    "paragraph below says about water, stone, grain and the work of the mill. "
)
_SYSTEM_CHARACTERS = 680


def batch_lines(count: int, *, model: str, bad: int = 0) -> Iterator[bytes]:
    """A batch's input file of so many lines of 1,000 bytes, the last line feed included.

    Four system prompts take turns, each two thirds of its lines.  `bad` of the lines, spread over
    the file, are no JSON.
    """
    systems = [_system(number) for number in range(_NUM_PROMPTS)]
    for number in range(count):
        if is_bad(number, count=count, bad=bad):
            yield b"{" * (_LINE_BYTES - 1) + b"\n"
        else:
            yield _line(custom_id(number), model, systems[number % _NUM_PROMPTS])


def is_bad(number: int, *, count: int, bad: int) -> bool:
    return (number + 1) * bad // count > number * bad // count


def custom_id(number: int) -> str:
    return f"line-{number:07}"


def _system(number: int) -> str:
    sentence = _SYSTEM_SENTENCE.format(number=number)
    return (sentence * (_SYSTEM_CHARACTERS // len(sentence) + 1))[:_SYSTEM_CHARACTERS]


def _line(name: str, model: str, system: str) -> bytes:
    def encoded(question: str) -> bytes:
        messages = [
            {"role": "system", "content": system},
            {"role": "user", "content": question},
        ]
        body = {"model": model, "messages": messages, "max_tokens": _OUTPUT_TOKENS}
        line = {"custom_id": name, "method": "POST", "url": ENDPOINT, "body": body}
        return json.dumps(line).encode() + b"\n"

    return encoded(_question(name, _LINE_BYTES - len(encoded(""))))


def _question(name: str, length: int) -> str:
    """The line's name, which an echo gives back, and words that no other line has."""
    digest = hashlib.blake2b(name.encode()).hexdigest()
    words = " ".join(digest[start : start + 6] for start in range(0, len(digest), 6))
    return f"{name} {words * (length // len(words) + 1)}"[:length]


def check_output(lines: Iterable[bytes], *, count: int, bad: int = 0) -> None:
    """Raises OutputIncomplete unless the lines are an echo of all good requests, once, in order."""
    good = (number for number in range(count) if not is_bad(number, count=count, bad=bad))
    wanted = map(custom_id, good)
    for place, (line, name) in enumerate(zip_longest(lines, wanted), start=1):
        if line is None:
            raise OutputIncomplete(f"the output file ends before line {place}, {name}")
        answer = json.loads(line)
        if answer["custom_id"] != name:
            raise OutputIncomplete(f"output line {place} is {answer['custom_id']}, not {name}")
        _require_echo(answer, name)


def _require_echo(answer: dict[str, Any], name: str) -> None:
    response = answer["response"]
    if answer["error"] is not None or response["status_code"] != 200:
        raise OutputIncomplete(f"{name} has no answer: {answer['error'] or response}")
    said = response["body"]["choices"][0]["message"]["content"].split()
    if said[:1] != [name] or len(said) != _OUTPUT_TOKENS:
        raise OutputIncomplete(f"{name} has another answer than its own: {' '.join(said)!r}")
