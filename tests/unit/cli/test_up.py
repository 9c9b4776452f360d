"""What `gristmill up` says of its model: what its first worker logged."""

from pathlib import Path

from cli.stack import Model
from cli.up import of_model


def test_device_and_room_of_a_real_model_are_told_under_the_name_that_jobs_use(
    tmp_path: Path,
) -> None:
    log = tmp_path / "worker-0.log"
    log.write_text(
        "12:00:00 INFO worker.inference: model /models/tiny.gguf: float32 on cpu\n"
        "12:00:00 INFO worker.inference: KV cache: 0.5 GiB; maximum concurrency for 8192 tokens"
        " per request: 1.2x\n",
        encoding="utf-8",
    )

    lines = list(of_model(Model("tiny", "/models/tiny.gguf", "real"), log))

    assert lines == [
        "Model      tiny: float32 on cpu",
        "KV pool    0.5 GiB; maximum concurrency for 8192 tokens per request: 1.2x",
    ]


def test_without_a_model_the_engine_is_told(tmp_path: Path) -> None:
    lines = list(of_model(Model("tiny", "tiny", "echo"), tmp_path / "none.log"))

    assert lines == ["Model      tiny: no model, the echo engine"]
