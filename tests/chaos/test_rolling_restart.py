"""Every process of ours is told to stop in turn while clients work, and nobody notices."""

import signal
from typing import Any

from tests.chaos.batches import FaultClient, plain_texts
from tests.chaos.invariants import Checked
from tests.chaos.meanwhile import meanwhile
from tests.fixtures.fault_stack import FaultStack, wait_for
from tests.fixtures.scripted_engine import answer_to

_TRIES = 100  # each after a wait; how long an API takes to start is the machine's affair
_OURS = ("api", "control-0", "control-1", "worker-0", "worker-1")


class Caller:
    """Asks and waits for the answer, as the official client does: it tries again when a connection
    breaks, and its Idempotency-Key makes that one request."""

    def __init__(self, client: FaultClient) -> None:
        self.wrong = list[str]()
        self.asked = 0
        self._client = client
        self._openai = client.openai.with_options(max_retries=_TRIES)

    def ask(self) -> None:
        self.asked += 1
        text = f"question {self.asked}"
        try:
            answer: Any = self._openai.chat.completions.create(
                model=self._client.model,
                messages=[{"role": "user", "content": text}],
                extra_headers={"Idempotency-Key": text},
            )
        except Exception as error:  # whatever it is, a client saw it
            self.wrong.append(f"{text}: {error!r}")
        else:
            said = answer.choices[0].message.content
            self.wrong += [] if said == answer_to(text) else [f"{text}: {said}"]


def test_a_rolling_restart_of_everything_is_seen_by_nobody(
    client: FaultClient, stack: FaultStack
) -> None:
    stack.exits.clear()
    texts = plain_texts(400, seconds=0.2)
    batch, caller = client.submit_texts(texts), Caller(client)

    with meanwhile(caller.ask):
        for name in _OURS:
            _restart(stack, name)
        ended = client.wait(batch)

    assert caller.wrong == []
    assert caller.asked > len(_OURS)
    assert [(each.name, each.code) for each in stack.exits] == [(name, 0) for name in _OURS]
    Checked(stack, client, ended, texts).check()


def _restart(stack: FaultStack, name: str) -> None:
    pid = stack.pid(name)
    stack.signal(name, signal.SIGTERM)
    wait_for(lambda: stack.pid(name) != pid)
    stack.wait_until_well()
