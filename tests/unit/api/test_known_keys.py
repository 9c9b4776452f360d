"""A key is asked for once in a while, and what is wrong with one is never remembered."""

from datetime import timedelta
from uuid import uuid4

import pytest

from api.known_keys import KnownKeys
from jobs.errors import NotAuthenticated
from jobs.keys import Caller

CALLER = Caller(uuid4(), "k", admin=False, rate=None)


class Asked:
    """A clock, and an authority that counts how often it is asked."""

    def __init__(self) -> None:
        self.now = 100.0
        self.times = 0
        self.known = {"good": CALLER}

    def authenticate(self, key: str) -> Caller:
        self.times += 1
        if key not in self.known:
            raise NotAuthenticated("unknown")
        return self.known[key]

    def keys(self) -> KnownKeys:
        five = timedelta(seconds=5)
        return KnownKeys(self.authenticate, remember_for=five, clock=lambda: self.now)


def test_a_key_is_known_for_so_long_and_no_longer() -> None:
    asked = Asked()
    keys = asked.keys()
    assert keys.recall("good") is None

    assert keys.ask("good") == CALLER
    asked.now += 4.9
    assert keys.recall("good") == CALLER
    asked.now += 0.2

    assert keys.recall("good") is None
    assert asked.times == 1


def test_a_key_that_is_refused_is_not_remembered() -> None:
    keys = Asked().keys()

    with pytest.raises(NotAuthenticated):
        keys.ask("bad")

    assert keys.recall("bad") is None


def test_one_key_opens_nothing_for_another() -> None:
    keys = Asked().keys()

    keys.ask("good")

    assert keys.recall("good ") is None
    assert keys.recall("goo") is None
