"""A process that was forked from the engine's has no threads that compute: it is told so."""

import multiprocessing

import pytest

from engine import ProcessForked
from tests.integration.engine.running import load, request, run_out


def refuses_to_go_on(engine):
    with pytest.raises(ProcessForked):
        engine.step()
    with pytest.raises(ProcessForked):
        engine.add([request("2", [1, 2, 3], max_tokens=2)])


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # of forking threads' process
def test_a_fork_is_refused_at_once_and_the_engine_goes_on(tiny_model_dir):
    engine = load(tiny_model_dir).engine
    engine.add([request("1", list(range(200)), max_tokens=4, ignore_eos=True)])
    engine.step()

    child = multiprocessing.get_context("fork").Process(target=refuses_to_go_on, args=[engine])
    child.start()
    child.join(timeout=60)
    hangs = child.is_alive()
    child.kill()
    child.join()

    assert (hangs, child.exitcode) == (False, 0)
    assert len(run_out(engine)["1"].token_ids) == 4
