"""Whose folder may become a data directory, and who holds it."""

from pathlib import Path

import pytest

from cli import data_dir
from cli.errors import AlreadyRunning, CommandFailed


def test_folder_with_other_files_is_refused_and_left_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear", encoding="utf-8")
    mode = tmp_path.stat().st_mode

    with pytest.raises(CommandFailed, match="holds other files"), data_dir.opened(tmp_path):
        pass

    assert tmp_path.stat().st_mode == mode
    assert [file.name for file in tmp_path.iterdir()] == ["letter.txt"]


def test_second_holder_is_refused_until_the_first_lets_go(tmp_path: Path) -> None:
    folder = tmp_path / "data"

    with (
        data_dir.opened(folder),
        pytest.raises(AlreadyRunning, match="another `gristmill up` runs"),
    ):
        data_dir.opened(folder).__enter__()

    with data_dir.opened(folder) as home:
        assert home == folder


def test_file_where_the_folder_should_be_is_refused_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "data").touch()

    with pytest.raises(CommandFailed, match="cannot be a data directory"):
        data_dir.opened(tmp_path / "data").__enter__()
