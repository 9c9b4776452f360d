"""What a process counts of what happens to it, as Prometheus reads it."""

import pytest
from prometheus_client import REGISTRY

from jobs.doorbell import CONTROL, Doorbell
from jobs.errors import LeaseLost, StorageRefused
from jobs.secrets import Secrets
from jobs.settings import StorageSettings
from jobs.storage import Storage
from tests.fixtures.work import LONG, MODEL, Work, segment_of
from tests.fixtures.workers import control_hands
from worker.control.finalizer import Finalizer
from worker.control.rescuer import Rescuer
from worker.control.sweeper import Sweeper
from worker.control.webhooks import WebhookSender
from worker.inference.pump import Claims


class Counted:
    """How much a number has grown since this was made."""

    def __init__(self, name: str, **labels: str) -> None:
        self._name, self._labels = f"gristmill_{name}", labels
        self._before = self._now()

    def _now(self) -> float:
        return REGISTRY.get_sample_value(self._name, self._labels) or 0.0

    def __call__(self) -> float:
        return self._now() - self._before


def test_a_write_that_came_too_late_is_counted(work: Work) -> None:
    rejected = Counted("stale_commit_rejected_total")
    job_id = work.add_planned_batch([1])
    (lease,) = work.claim(work.add_worker())
    work.hand_back(lease)

    with pytest.raises(LeaseLost):
        work.flush(lease, segment_of(job_id, [0]))

    assert rejected() == 1


def test_rescues_are_counted_by_what_became_of_the_worker(work: Work) -> None:
    dead = Counted("rescued_total", worker="dead")
    spared = Counted("rescued_total", worker="spared")
    work.add_planned_batch([1])
    me = work.add_worker()
    work.claim(me)
    work.kill(me)

    Rescuer(work.sessions, ttl=LONG).rescue()

    assert (dead(), spared()) == (1, 0)


def test_bells_and_claims_that_found_nothing_are_counted(work: Work, broker_url: str) -> None:
    bells, empty = Counted("bells_rung_total", queue=CONTROL), Counted("claims_empty_total")
    doorbell, me = Doorbell(broker_url), work.add_worker()

    doorbell.ring(CONTROL)
    Claims(work.sessions, model=MODEL, me=lambda: me).next(100)
    doorbell.close()

    assert (bells(), empty()) == (1, 1)


def test_a_refusal_of_s3_is_counted_by_operation_and_code(storage: Storage) -> None:
    missing = Counted("s3_errors_total", op="GetObject", code="NoSuchKey")

    with pytest.raises(StorageRefused):
        storage.read("nothing")

    assert missing() == 1


def test_a_silence_of_s3_is_counted_by_operation_and_kind(
    storage_settings: StorageSettings,
) -> None:
    unreachable = Counted("s3_errors_total", op="HeadObject", code="EndpointConnectionError")
    away = Storage(storage_settings.model_copy(update={"endpoint": "http://127.0.0.1:1"}))

    with pytest.raises(Exception, match="S3"):
        away.find("anything")

    assert unreachable() >= 1


def test_a_request_that_kills_is_counted_when_it_is_answered(
    work: Work, storage: Storage, broker_url: str
) -> None:
    poison = Counted("poison_total")
    work.add_request()
    for _ in range(4):  # two beside others, two alone
        me = work.add_worker()
        (lease,) = work.claim(me)
        if lease.solo:
            work.take_alone(lease)
        work.kill(me)
        work.rescue()
        Sweeper(work.sessions, storage, Doorbell(broker_url)).sweep()

    assert poison() == 1


def test_a_finalization_and_the_webhook_that_tells_of_it_are_counted(
    work: Work, storage: Storage, secrets: Secrets
) -> None:
    finalized = Counted("finalize_seconds_count")
    refused = Counted("webhook_attempts_total", code="none")
    hands = control_hands(work)
    work.add_settled_batch(storage=storage, webhook_url="http://127.0.0.1:1/hook")

    assert Finalizer(work.sessions, storage, hands).finalize_next()
    sender = WebhookSender(work.sessions, secrets, hands=hands, allow_private=True)
    assert sender.deliver_next()

    assert (finalized(), refused()) == (1, 1)
