from concurrent.futures import ThreadPoolExecutor

from api.dashboard.snapshots import Snapshots
from tests.integration.dashboard.scene import TTL


def test_all_who_ask_within_its_age_share_one_look(sessions):
    snapshots = Snapshots(sessions, beat_ttl=TTL, max_age=1.0, clock=lambda: 100.0)

    with ThreadPoolExecutor(8) as watchers:
        looks = list(watchers.map(lambda _: snapshots.newest(), range(32)))

    assert len({id(look) for look in looks}) == 1


def test_who_asks_later_gets_a_newer_look(sessions):
    seconds = iter([100.0, 100.9, 101.0, 101.0])
    snapshots = Snapshots(sessions, beat_ttl=TTL, max_age=1.0, clock=lambda: next(seconds))

    first, still_first, second = (snapshots.newest() for _ in range(3))

    assert still_first is first
    assert second.at > first.at
