"""The laws, whatever comes in whatever order, with a fault between any two statements.

Hypothesis plays clients, workers, control processes, time and lightning over a real Postgres and a
real S3; the witness looks after every COMMIT.  At the end all who acted are dead, and healthy
processes must bring every job to its end, whose files are then read.

`make chaos` plays long games, three for each seed and other ones each time; `--hypothesis-seed N`
plays them again.
"""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test
from sqlalchemy import Engine, create_engine
from sqlalchemy.exc import SQLAlchemyError

from jobs.doorbell import Doorbell
from jobs.secrets import Secrets
from jobs.storage import Storage
from tests.chaos.laws.control_actor import ControlActor
from tests.chaos.laws.inference_actor import InferenceActor
from tests.chaos.laws.lightning import Strike, Where
from tests.chaos.laws.world import World
from tests.chaos.scale import FULL, SEEDS, full_or_short
from worker.control.leased_jobs import GivenUp

_GAMES_A_SEED = 3

_PLAY = settings(
    max_examples=full_or_short(_GAMES_A_SEED * SEEDS, 10),
    stateful_step_count=full_or_short(60, 30),
    derandomize=not FULL,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate, Phase.shrink],
    print_blob=True,
)

_BEAT = timedelta(minutes=4)
_MOST = 3  # living processes of a kind

# Two of three steps are spared.
strikes = (
    st.none()
    | st.none()
    | st.builds(Strike, st.just(Where.STATEMENT), st.integers(0, 9))
    | st.builds(Strike, st.sampled_from([Where.COMMIT, Where.ANSWER]), st.integers(0, 2))
)
anyone = st.integers(0, _MOST - 1)
whiles = st.sampled_from([25, 12, 130]).map(lambda minutes: timedelta(minutes=minutes))


_CLIENTS_ACTS = [
    World.submit_batch,
    World.submit_short_lived_batch,
    World.submit_request,
    World.submit_urgent_request,
    World.cancel,
    World.pause,
    World.unpause,
]
_WORKERS_ACTS = [
    InferenceActor.answer_a_row,
    InferenceActor.answer_a_row,
    InferenceActor.claim_and_start,
    InferenceActor.claim_and_start,
    InferenceActor.answer_a_shard,
    InferenceActor.beat,
    InferenceActor.hand_one_back,
    InferenceActor.fall,
]
_CONTROLS_ACTS = [
    ControlActor.plan,
    ControlActor.begin_plan,
    ControlActor.go_on_planning,
    ControlActor.finalize,
    ControlActor.begin_final,
    ControlActor.go_on_finalizing,
    ControlActor.rescue,
    ControlActor.sweep,
    ControlActor.beat,
    ControlActor.begin_call,
    ControlActor.end_call_well,
    ControlActor.end_call_badly,
]


def _is_of_the_database(error: Exception) -> bool:
    """Whether it is what a strike makes a step raise."""
    return isinstance(error.__cause__ if isinstance(error, GivenUp) else error, SQLAlchemyError)


def several(acts: list[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(st.sampled_from(acts), min_size=1, max_size=4)


class Game(RuleBasedStateMachine):
    """Each rule is a step of one actor; its process survives what a fault makes the step raise."""

    world: World

    def __init__(self) -> None:
        super().__init__()
        self.world.begin()

    def teardown(self) -> None:
        self.world.end()

    def _step(self, strike: Strike | None, work: Callable[[], object]) -> None:
        with self.world.lightning.threatening(strike):
            try:
                work()
            except (SQLAlchemyError, GivenUp) as error:
                if strike is None or not _is_of_the_database(error):
                    raise
        self.world.witness.look()  # also at what was committed and never answered

    @rule(act=st.sampled_from(_CLIENTS_ACTS), number=anyone, strike=strikes)
    def a_client(
        self, act: Callable[[World, int], None], number: int, strike: Strike | None
    ) -> None:
        """`number`: of rows, or which of the jobs that have not ended."""
        self._step(strike, lambda: act(self.world, number))

    @rule(which=anyone, acts=several(_WORKERS_ACTS), strike=strikes)
    def a_worker(
        self, which: int, acts: list[Callable[[InferenceActor], None]], strike: Strike | None
    ) -> None:
        worker = self.world.workers[which % len(self.world.workers)]
        self._step(strike, lambda: [act(worker) for act in acts])

    @rule(which=anyone, acts=several(_CONTROLS_ACTS), strike=strikes)
    def a_control_process(
        self, which: int, acts: list[Callable[[ControlActor], object]], strike: Strike | None
    ) -> None:
        control = self.world.controls[which % len(self.world.controls)]
        self._step(strike, lambda: [act(control) for act in acts])

    @rule(which=anyone, kind=st.sampled_from(["worker", "control"]))
    def a_process_is_killed_or_started(self, which: int, kind: str) -> None:
        actors: list[Any] = self.world.workers if kind == "worker" else self.world.controls
        if which < len(actors) and len(actors) > 1:
            actors.pop(which)
        else:
            (self.world.hire_worker if kind == "worker" else self.world.hire_control)()

    @rule(by=whiles)
    def nobody_does_anything(self, by: timedelta) -> None:
        self.world.pass_time(by)

    @rule(beats=st.sampled_from([8, 3, 1]), silent=anyone | st.none())
    def life_goes_on(self, beats: int, silent: int | None) -> None:
        """All but one of the workers beat and claim, and the roll is called.  After eight beats the
        silent one has been given up: from then on it is a zombie."""
        for _ in range(beats):
            for place, worker in enumerate(self.world.workers):
                if place != silent:
                    worker.beat()
                    worker.claim_and_start()
            for control in self.world.controls:
                control.beat()
                control.rescue()
            self.world.pass_time(_BEAT)


@pytest.fixture
def admin(database_url: str) -> Iterator[Engine]:
    """Connections that nothing strikes."""
    engine = create_engine(database_url, isolation_level="AUTOCOMMIT")
    yield engine
    engine.dispose()


@pytest.fixture
def world(
    database: Engine, admin: Engine, storage: Storage, broker_url: str, secrets: Secrets
) -> Iterator[World]:
    doorbell = Doorbell(broker_url)
    yield World(database, admin, storage, doorbell, secrets)
    doorbell.close()


@pytest.mark.timeout(0)
@pytest.mark.law("I1")
@pytest.mark.law("I2")
@pytest.mark.law("I3")
@pytest.mark.law("I4")
@pytest.mark.law("I5")
@pytest.mark.law("I6")
@pytest.mark.law("I7")
@pytest.mark.law("I11")
def test_no_order_of_steps_and_faults_breaks_a_law(world: World) -> None:
    played = type("Played", (Game,), {"world": world})

    run_state_machine_as_test(played, settings=_PLAY)
