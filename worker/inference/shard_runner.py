"""Runs one leased shard: input lines to engine requests, completions to finished rows.

Rows that already have a result are skipped; a body that the endpoint refuses is answered at once.
"""

import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import orjson

from engine.requests import Completion, Request, SamplingParams
from jobs import ids, lines, results
from jobs.database import Sessions
from jobs.errors import BodyRefused
from jobs.leases import ShardLease
from jobs.lines import Answer
from jobs.requests import ChatCompletionBody, CompletionBody, check_body
from jobs.secrets import Secrets
from jobs.storage import Storage
from worker.inference.custody import Custody
from worker.inference.engine_host import EngineHost, Group
from worker.inference.result_writer import FinishedRow, ResultWriter, ShardOutput

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
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

        Raises StorageUnavailable, or what Postgres raises, before anything was handed over.
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
        requests = [request for row in rows if (request := run.prepare(row, salt)) is not None]
        if requests:
            self._host.submit(Group(lease.held, requests, lease.cost, run.on_completion))

    def _read(self, lease: ShardLease) -> Iterator[InputRow]:
        if lease.inline is not None:
            yield InputRow(0, None, orjson.loads(lease.inline)["body"])
            return
        assert lease.input_key is not None
        raw = self._storage.read(lease.input_key).split(b"\n")
        for line in raw[lease.first_line : lease.end_line]:
            row = orjson.loads(line)
            yield InputRow(row["index"], row["custom_id"], row["body"])

    def _unfinished(self, lease: ShardLease, rows: list[InputRow]) -> list[InputRow]:
        with self._sessions() as session:
            done = results.finished(session, lease.job_id, [row.index for row in rows])
        return [row for row in rows if row.index not in done]


class _ShardRun:
    """What one shard's completions need to become lines."""

    def __init__(self, lease: ShardLease, output: ShardOutput, writer: ResultWriter) -> None:
        self._lease = lease
        self._output = output
        self._writer = writer
        self._rows = dict[str, InputRow]()

    def prepare(self, row: InputRow, salt: str) -> Request | None:
        """The engine's request for a row; None if the row is refused, and so answered."""
        try:
            body = check_body(self._lease.endpoint, row.body)
        except BodyRefused as refusal:
            self._refuse(row, refusal)
            return None
        request_id = ids.of_request(self._lease.job_id, row.index)
        self._rows[request_id] = row
        return Request(
            request_id=request_id,
            prompt=_prompt(body),
            params=_params(body),
            salt=salt,
            priority=int(self._lease.interactive),
        )

    def on_completion(self, completion: Completion) -> None:
        """On the engine's thread, once for each request."""
        row = self._rows.pop(completion.request_id)
        if completion.error is not None:
            error = completion.error
            self._refuse(row, BodyRefused(error.message, param=error.param, code=error.code))
            return
        answer = Answer(
            text=completion.text,
            finish_reason=completion.finish_reason,
            prompt_tokens=completion.prompt_tokens,
            cached_tokens=completion.cached_tokens,
            output_tokens=len(completion.token_ids),
            created=int(time.time()),
        )
        self._finish(row, answer)

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

    def _refuse(self, row: InputRow, refusal: BodyRefused) -> None:
        line = lines.refused(self._lease.job_id, row.index, custom_id=row.custom_id, error=refusal)
        self._writer.add(self._output, FinishedRow(row.index, False, line))


def _prompt(body: ChatCompletionBody | CompletionBody) -> str | list[dict[str, Any]]:
    if isinstance(body, CompletionBody):
        return body.prompt
    return [{"role": _role(each.role), "content": each.text} for each in body.messages]


def _role(role: str) -> str:
    # OpenAI's newer name for what open models' templates call the system's.
    return "system" if role == "developer" else role


def _params(body: ChatCompletionBody | CompletionBody) -> SamplingParams:
    # OpenAI's default temperature is 1, and people who move here expect it.
    return SamplingParams(
        max_tokens=body.output_limit,
        temperature=1.0 if body.temperature is None else body.temperature,
        top_p=1.0 if body.top_p is None else body.top_p,
        top_k=body.top_k or 0,
        seed=body.seed,
        stop=body.stops,
        ignore_eos=body.ignore_eos,
    )
