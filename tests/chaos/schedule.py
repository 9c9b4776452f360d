"""What goes wrong, and when: a function of its seed alone."""

import random
from dataclasses import dataclass
from enum import StrEnum

_PAUSE = (0.2, 0.9)  # seconds between one fault and the next, at least and at most
_LASTING = (0.5, 2.0)  # seconds, of a fault that ends by itself
_FROZEN = (0.5, 7.0)  # some wake before their lease has lapsed, some long after


class Fault(StrEnum):
    KILL = "kill"
    FREEZE = "freeze"
    CUT_REDIS_CLIENTS = "cut redis clients"
    FLUSH_REDIS = "flush redis"
    KILL_REDIS_SAVED = "kill redis, its data kept"
    RESTART_POSTGRES = "restart postgres at once"
    CUT_POSTGRES_CLIENTS = "cut postgres clients"
    FULL_DATABASE = "no space left for postgres"
    FULL_SPOOL = "no space left for spools"
    TOXIC = "toxic"


_LASTS = {Fault.FREEZE: _FROZEN} | dict.fromkeys(
    (Fault.FULL_DATABASE, Fault.FULL_SPOOL, Fault.TOXIC), _LASTING
)
_TARGETS = {
    Fault.KILL: ("worker-0", "worker-1", "control-0", "control-1", "api", "broker", "storage"),
    Fault.FREEZE: ("worker-0", "worker-1", "control-0", "control-1", "broker", "storage"),
    Fault.TOXIC: ("unavailable", "reset", "truncate", "stall", "slow", "lose answer"),
}


@dataclass(frozen=True, slots=True)
class Step:
    """A fault that begins so many seconds after the start, of what, and how long it lasts."""

    at: float
    fault: Fault
    target: str = ""
    lasts: float = 0.0

    def __str__(self) -> str:
        lasts = f" for {self.lasts:.1f} s" if self.lasts else ""
        return f"{self.at:5.1f} s  {self.fault} {self.target}{lasts}"


def schedule(seed: int, *, seconds: float) -> list[Step]:
    """Steps that begin within so many seconds.  Every fault comes once before any comes again."""
    rng = random.Random(seed)
    steps, at, deck = list[Step](), 0.0, list[Fault]()
    while (at := at + rng.uniform(*_PAUSE)) < seconds:
        deck = deck or rng.sample(list(Fault), len(Fault))
        steps.append(_step(rng, at, deck.pop()))
    return steps


def _step(rng: random.Random, at: float, fault: Fault) -> Step:
    target = rng.choice(_TARGETS[fault]) if fault in _TARGETS else ""
    lasts = rng.uniform(*_LASTS[fault]) if fault in _LASTS else 0.0
    return Step(at, fault, target, lasts)
