"""The answer to a POST that creates: made once, however often it is asked for under one key."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Header, Request
from pydantic import BaseModel
from sqlalchemy.orm import Session

from api.deps import CurrentCaller
from jobs import idempotency
from jobs.idempotency import KeyedRequest
from jobs.keys import Caller
from jobs.secrets import Secrets

IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=255,
        description="Sent again with the same body, the first answer comes again. Kept 24 hours.",
    ),
]


@dataclass(frozen=True, slots=True)
class Once:
    """One sending of a POST.  Without a key, each sending is another request."""

    caller: Caller
    call: str
    key: str | None

    def answer(
        self,
        session: Session,
        make: Callable[[], BaseModel],
        *,
        body: str,
        sealed_by: Secrets | None = None,
    ) -> str:
        """The first answer if there was one; else what `make` makes, kept in its transaction.

        `body` is the request's content in one canonical form.  An answer that holds a secret is
        kept `sealed_by` the server's key.
        """
        if self.key is None:
            return make().model_dump_json()
        digest = hashlib.sha256(f"{self.call}\n{body}".encode()).hexdigest()
        request = KeyedRequest(self.caller.tenant_id, self.key, digest)
        first = idempotency.claim(session, request)
        if first is not None:
            return first if sealed_by is None else sealed_by.decrypt(first.encode())
        answer = make().model_dump_json()
        kept = answer if sealed_by is None else sealed_by.encrypt(answer).decode()
        idempotency.keep(session, request, response=kept)
        return answer


def _once(request: Request, caller: CurrentCaller, idempotency_key: IdempotencyKey = None) -> Once:
    return Once(caller, f"{request.method} {request.url.path}", idempotency_key)


OneAnswer = Annotated[Once, Depends(_once)]
