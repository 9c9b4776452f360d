"""What several objects of answers share."""

from collections.abc import Sequence
from datetime import datetime
from typing import Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict

from jobs.reading import Counts


class Given(BaseModel):
    """An object of an answer."""

    model_config = ConfigDict(frozen=True)


def unix(time: datetime) -> int:
    return int(time.timestamp())


def unix_or_none(time: datetime | None) -> int | None:
    return None if time is None else unix(time)


class InputDetails(Given):
    cached_tokens: int


class OutputDetails(Given):
    reasoning_tokens: int = 0


class Usage(Given):
    input_tokens: int
    input_tokens_details: InputDetails
    output_tokens: int
    output_tokens_details: OutputDetails = OutputDetails()
    total_tokens: int

    @classmethod
    def of(cls, counts: Counts) -> "Usage":
        return cls(
            input_tokens=counts.input_tokens,
            input_tokens_details=InputDetails(cached_tokens=counts.cached_tokens),
            output_tokens=counts.output_tokens,
            total_tokens=counts.input_tokens + counts.output_tokens,
        )


class Queue(Given):
    position: int
    eta_seconds: int | None
    reason: str


class Named(Given):
    id: str


Item = TypeVar("Item", bound=Named)


class ListOf(Given, Generic[Item]):
    object: Literal["list"] = "list"
    data: list[Item]
    first_id: str | None
    last_id: str | None
    has_more: bool

    @classmethod
    def page(cls, items: Sequence[Item], *, has_more: bool) -> "ListOf[Item]":
        return cls(
            data=list(items),
            first_id=items[0].id if items else None,
            last_id=items[-1].id if items else None,
            has_more=has_more,
        )
