"""What `gristmill submit` does: upload, create, follow, download, verify; and remembers each."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TransferSpeedColumn,
)

from cli.api_client import Answer, Api
from cli.endings import TERMINAL, Ending, ending_of, report
from cli.errors import CommandFailed
from cli.receipt_check import Downloads, differences
from cli.submission import Memory, Submission

_LOOK_EVERY = 0.5  # seconds


@dataclass(frozen=True, slots=True)
class Places:
    """Where results go: `FOLDER/STEM.output.jsonl` and so on."""

    folder: Path
    stem: str

    @classmethod
    def for_results(cls, file: Path, folder: Path | None) -> Self:
        """Beside `file` if no folder is named; `a.json` and `a.jsonl` share none of them."""
        return cls(folder or file.parent, file.name.removesuffix(".jsonl"))

    def of(self, name: str) -> Path:
        return self.folder / f"{self.stem}.{name}"


class Run:
    def __init__(self, api: Api, file: Path, places: Places, console: Console) -> None:
        self._api = api
        self._file = file
        self._places = places
        self._console = console
        self._memory = Memory(places.of("submission.json"))
        self.batch_id: str | None = None  # once there is one

    def go(self, body: dict[str, Any], *, wait: bool, again: bool) -> Ending:
        self._places.folder.mkdir(parents=True, exist_ok=True)
        fresh = Submission.of(self._file, deployment=self._api.deployment, options=body)
        self._create(fresh.again() if again else self._memory.recall(fresh), body)
        print(self.batch_id, flush=True)
        if not wait:
            return Ending.COMPLETED
        batch = self._followed(f"/v1/batches/{self.batch_id}")
        receipt = self._api.get(f"/v1/batches/{self.batch_id}/receipt")
        written = self._download(receipt)
        self._memory.forget()
        for sentence in report(batch, receipt, written):
            self._console.print(sentence, markup=False, highlight=False, soft_wrap=True)
        return ending_of(batch)

    def _create(self, submission: Submission, body: dict[str, Any]) -> None:
        """Do what has not been done yet, and remember each step once the server has answered."""
        if submission.file_id is None:
            submission = submission.with_file(self._upload(submission.idempotency_key))
            self._memory.keep(submission)
        self.batch_id = submission.batch_id
        if self.batch_id is None:
            batch = self._api.post(
                "/v1/batches",
                body | {"input_file_id": submission.file_id},
                key=f"batch-{submission.idempotency_key}",
            )
            self.batch_id = str(batch["id"])
            self._memory.keep(submission.with_batch(self.batch_id))
            self._say_if_it_has_ended()

    def _say_if_it_has_ended(self) -> None:
        """A batch that ended before it was begun is that of an earlier day's same command."""
        if self._api.get(f"/v1/batches/{self.batch_id}")["status"] in TERMINAL:
            self._console.print(
                "This file has run with these options before: it is the same batch, with the same"
                " results. --again runs it once more.",
                markup=False,
                highlight=False,
                soft_wrap=True,
            )

    def _upload(self, key: str) -> str:
        with self._bytes_bar("uploading", self._file.stat().st_size) as advance:
            uploaded = self._api.upload(self._file, key=f"file-{key}", watch=advance)
        return str(uploaded["id"])

    def _followed(self, path: str) -> Answer:
        batch = self._api.get(path)
        with self._bar(MofNCompleteColumn()) as bar:
            task = bar.add_task("", total=None)
            while batch["status"] not in TERMINAL:
                _show(bar, task, batch)
                time.sleep(_LOOK_EVERY)
                batch = self._api.get(path)
            _show(bar, task, batch)
        return batch

    def _download(self, receipt: Answer) -> list[Path]:
        """Fetch what the receipt names, hold it against the receipt, and say where it lies."""
        paths = {name: self._places.of(f"{name}.jsonl") for name in ("output", "error")}
        for name, path in paths.items():
            path.unlink(missing_ok=True)  # of an earlier run, which might be taken for this one's
            if receipt[name] is not None:
                with self._bytes_bar(f"downloading {name}", receipt[name]["bytes"]) as advance:
                    self._api.download(receipt[name], path, watch=advance)
        there = {name: path if receipt[name] else None for name, path in paths.items()}
        text = json.dumps(receipt, indent=2) + "\n"
        self._places.of("receipt.json").write_text(text, encoding="utf-8")
        found = list(differences(receipt, Downloads(**there, input=self._file)))
        if found:
            raise CommandFailed(
                f"the results of {receipt['batch_id']} are not whole: {' '.join(found)}"
            )
        return [path for path in there.values() if path is not None]

    def _bar(self, *columns: ProgressColumn) -> Progress:
        described = TextColumn("{task.description}")
        return Progress(
            described, BarColumn(), *columns, TimeElapsedColumn(), console=self._console
        )

    @contextmanager
    def _bytes_bar(self, what: str, size: int) -> Iterator[Callable[[int], None]]:
        with self._bar(DownloadColumn(), TransferSpeedColumn()) as bar:
            task = bar.add_task(what, total=size)
            yield lambda done: bar.update(task, completed=done)


def _show(bar: Progress, task: Any, batch: Answer) -> None:
    counts, queue = batch["request_counts"], batch["queue"]
    what = batch["status"]
    if queue is not None and batch["status"] in ("validating", "in_progress"):
        eta = queue["eta_seconds"]
        what += f", {queue['reason']}" + ("" if eta is None else f", about {eta:,} s")
    done = counts["completed"] + counts["failed"]
    bar.update(task, description=what, completed=done, total=counts["total"] or None)
