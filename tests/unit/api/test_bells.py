"""Whoever asks for a bell gets one after having asked, and many share it."""

import threading

from api.bells import Bells


class Rung:
    """Bells that were rung; the first is held until it is let go."""

    def __init__(self) -> None:
        self.queues = list[str]()
        self.begun = threading.Event()
        self.let_go = threading.Event()

    def ring(self, queue: str) -> None:
        self.begun.set()
        assert self.let_go.wait(60)
        self.queues.append(queue)


def test_all_who_ask_while_a_bell_is_rung_share_the_next_one() -> None:
    rung = Rung()
    bells = Bells(rung.ring)
    bells.ring("a")
    assert rung.begun.wait(60)

    for _ in range(100):
        bells.ring("a")
    rung.let_go.set()
    bells.close()

    assert rung.queues == ["a", "a"]


def test_what_was_asked_for_is_rung_before_the_end() -> None:
    rung = Rung()
    rung.let_go.set()
    bells = Bells(rung.ring)

    for queue in ("a", "b", "c"):
        bells.ring(queue)
    bells.close()

    assert {*rung.queues} == {"a", "b", "c"}
