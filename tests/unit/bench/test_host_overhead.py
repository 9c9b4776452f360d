from bench.host_overhead import RUNNING, host_overhead


def test_the_hosts_part_is_timed_with_every_place_taken_alone_and_with_others_waiting(
    tiny_model_dir,
):
    figures = host_overhead(str(tiny_model_dir), waiting=9, steps=3)

    alone, beside = figures["alone"], figures["beside"]
    assert (alone["running"], alone["waiting"]) == (RUNNING, 0)
    assert (beside["running"], beside["waiting"]) == (RUNNING, 9)
    assert alone["cpu"]["p50_ms"] > 0
