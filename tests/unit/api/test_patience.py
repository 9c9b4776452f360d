"""Questions that hang: shared by all who ask, told of at once, and never piled up."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from api.patience import NoAnswer, Patient


class Oracle:
    """Answers once it may."""

    def __init__(self) -> None:
        self.may_answer = threading.Event()
        self.times_asked = 0

    def ask(self) -> int:
        self.times_asked += 1
        self.may_answer.wait()
        return self.times_asked


def test_those_who_ask_while_a_question_hangs_are_told_and_ask_no_other() -> None:
    oracle = Oracle()
    patient = Patient(oracle.ask)

    with ThreadPoolExecutor(8) as people:
        asked = [people.submit(patient) for _ in range(32)]
    failures = [each.exception() for each in asked]
    oracle.may_answer.set()

    assert all(isinstance(failure, NoAnswer) for failure in failures)
    assert oracle.times_asked == 1


def test_a_question_that_ended_late_is_asked_anew() -> None:
    oracle = Oracle()
    patient = Patient(oracle.ask)
    with pytest.raises(NoAnswer):
        patient()

    oracle.may_answer.set()
    answer = 0
    while answer < 2:  # the first one's may be under way still
        try:
            answer = patient()
        except NoAnswer:
            continue

    assert answer == 2


def test_what_the_asking_raises_is_raised_to_whoever_asked() -> None:
    def ask() -> None:
        raise LookupError("no tables")

    with pytest.raises(LookupError, match="no tables"):
        Patient(ask)()
