"""A page of a batch's finished lines."""

from typing import Annotated, Any, Literal

from pydantic import Field

from api.schemas.given import Given
from api.schemas.sent import Query
from jobs.live_results import MAX_LINES


class ResultsQuery(Query):
    limit: Annotated[int, Field(ge=1, le=MAX_LINES)] = 100


class ResultsPage(Given):
    """`has_more`: ask again at once.  `done`: the batch has ended and this was the last page."""

    object: Literal["list"] = "list"
    data: list[dict[str, Any]]
    next_cursor: str
    has_more: bool
    done: bool
