"""What is kept of a program's output, and what is shown of it."""

from pathlib import Path

from cli import logs


def test_tail_is_the_last_lines_on_one_line(tmp_path: Path) -> None:
    log = tmp_path / "api.log"
    log.write_text("first\n\nsecond\n  third  \nfourth\n", encoding="utf-8")

    tail = logs.tail(log)

    assert tail == "second | third | fourth"


def test_tail_of_a_long_log_with_a_torn_character_is_readable(tmp_path: Path) -> None:
    log = tmp_path / "api.log"
    log.write_bytes("ü".encode() * 5000 + b"\nlast\n")

    tail = logs.tail(log)

    assert tail.endswith("| last")


def test_log_of_the_last_run_is_set_aside(tmp_path: Path) -> None:
    log = tmp_path / "logs" / "api.log"
    logs.rotate(log)
    log.write_text("yesterday", encoding="utf-8")

    logs.rotate(log)

    assert log.read_text(encoding="utf-8") == ""
    assert (tmp_path / "logs" / "api.log.1").read_text(encoding="utf-8") == "yesterday"


def test_what_a_log_says_behind_a_mark_is_found(tmp_path: Path) -> None:
    log = tmp_path / "worker-0.log"
    log.write_text("noise\n12:00 INFO worker: KV cache: 2 GiB\n", encoding="utf-8")

    assert list(logs.said(log, "KV cache: ")) == ["2 GiB"]
    assert list(logs.said(log, "model x: ")) == []
