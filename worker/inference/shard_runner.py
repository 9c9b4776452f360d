"""Runs one leased shard: input lines to engine requests, completions to finished rows.

Rows that already have a result are skipped; a body that the endpoint refuses is answered at once.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import orjson

from engine.requests import Completion, Refusal, Request
from jobs import ids, lines, metrics, results, shard_inputs
from jobs.database import Sessions
from jobs.errors import BodyRefused
from jobs.leases import ShardLease
from jobs.lines import Answer
from jobs.secrets import Secrets
from jobs.storage import Storage
from worker.inference.bodies import BodyReader
from worker.inference.custody import Custody
from worker.inference.engine_host import EngineHost, Group
from worker.inference.result_writer import FinishedRow, ResultWriter, ShardOutput
from worker.inference.translation import answer_of, engine_requests

log = logging.getLogger(__name__)


@dataclass(slots=True)  # not frozen: to make it would cost three times as much
class InputRow:
    """One line of a shard's input, as the planner or the intake wrote it."""

    index: int
    custom_id: str | None
    body: dict[str, Any]


class ShardRunner:
    def __init__(
        self,
        sessions: Sessions,
        storage: Storage,
        *,
        host: EngineHost,
        writer: ResultWriter,
        custody: Custody,
        secrets: Secrets,
    ) -> None:
        self._sessions = sessions
        self._storage = storage
        self._host = host
        self._writer = writer
        self._custody = custody
        self._secrets = secrets

    def start(self, lease: ShardLease) -> None:
        """Hand a shard's unfinished rows to the engine.

        Raises InputDamaged, StorageUnavailable, or what Postgres raises, before anything was handed
        over.
        """
        rows = self._unfinished(lease, list(self._read(lease)))
        output = self._writer.open(
            lease,
            num_rows=len(rows),
            on_settled=self._custody.settled,
            on_lost=self._custody.lost,
        )
        run = _ShardRun(lease, output, self._writer)
        salt = self._secrets.salt(lease.tenant_id)
        requests = [request for row in rows for request in run.prepare(row, salt)]
        if requests:
            self._host.submit(
                Group(lease.held, requests, lease.cost, run.on_completion, lease.followers)
            )

    def _read(self, lease: ShardLease) -> Iterator[InputRow]:
        if lease.inline is not None:
            yield InputRow(0, None, orjson.loads(lease.inline)["body"])
            return
        assert lease.input_key is not None
        raw = shard_inputs.read_lines(self._storage, lease.input_key, sha256=lease.input_sha256)
        for line in raw[lease.first_line : lease.end_line]:
            row = orjson.loads(line)
            yield InputRow(row["index"], row["custom_id"], row["body"])

    def _unfinished(self, lease: ShardLease, rows: list[InputRow]) -> list[InputRow]:
        if lease.fresh:
            return rows
        with self._sessions() as session:
            done = results.finished(session, lease.job_id, [row.index for row in rows])
        again = [row for row in rows if row.index not in done]
        if lease.attempt > 1 or lease.solo:  # a solo shard's rows were another shard's
            metrics.ROWS_RECOMPUTED.inc(len(again))
        return again


@dataclass(slots=True)
class _Asked:
    """A row while the engine computes its choices, each of which has a request of its own."""

    row: InputRow
    request_ids: list[str]
    completions: dict[str, Completion] = field(default_factory=dict)

    def take(self, completion: Completion) -> bool:
        """Returns whether it was the last."""
        self.completions[completion.request_id] = completion
        return len(self.completions) == len(self.request_ids)

    def in_order(self) -> list[Completion]:
        return [self.completions[request_id] for request_id in self.request_ids]


class _ShardRun:
    """What one shard's completions need to become lines."""

    def __init__(self, lease: ShardLease, output: ShardOutput, writer: ResultWriter) -> None:
        self._lease = lease
        self._output = output
        self._writer = writer
        self._bodies = BodyReader(lease.endpoint)
        self._asked = dict[str, _Asked]()

    def prepare(self, row: InputRow, salt: str) -> list[Request]:
        """The engine's requests for a row; none if the row is refused, and so answered."""
        try:
            prompt, shape = self._bodies.read(row.body)
        except BodyRefused as refusal:
            self._refuse(row, refusal)
            return []
        requests = engine_requests(
            prompt,
            shape,
            request_id=ids.of_request(self._lease.job_id, row.index),
            salt=salt,
            priority=int(self._lease.interactive),
        )
        asked = _Asked(row, [request.request_id for request in requests])
        for request_id in asked.request_ids:
            self._asked[request_id] = asked
        return requests

    def on_completion(self, completion: Completion) -> None:
        """On the engine's thread, once for each request."""
        asked = self._asked.pop(completion.request_id)
        if not asked.take(completion):
            return
        completions = asked.in_order()
        errors = [each.error for each in completions if each.error is not None]
        if errors:
            self._end(asked.row, errors[0])
            return
        self._finish(asked.row, answer_of(completions))

    def _finish(self, row: InputRow, answer: Answer) -> None:
        lease = self._lease
        body = lines.response_body(
            lease.job_id, row.index, endpoint=lease.endpoint, model=lease.model, answer=answer
        )
        line = lines.answered(lease.job_id, row.index, custom_id=row.custom_id, body=body)
        self._writer.add(
            self._output,
            FinishedRow(
                row.index,
                True,
                line,
                prompt_tokens=answer.prompt_tokens,
                cached_tokens=answer.cached_tokens,
                output_tokens=answer.output_tokens,
            ),
        )

    def _end(self, row: InputRow, error: Refusal) -> None:
        """With the engine's word instead of an answer."""
        if not error.ours:
            self._refuse(row, BodyRefused(error.message, param=error.param, code=error.code))
            return
        said = {"code": error.code, "message": error.message}
        line = lines.broke(self._lease.job_id, row.index, custom_id=row.custom_id, **said)
        self._writer.add(self._output, FinishedRow(row.index, False, line))

    def _refuse(self, row: InputRow, refusal: BodyRefused) -> None:
        line = lines.refused(self._lease.job_id, row.index, custom_id=row.custom_id, error=refusal)
        self._writer.add(self._output, FinishedRow(row.index, False, line))
