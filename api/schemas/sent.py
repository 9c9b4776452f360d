"""What a body may hold: text, metadata, a window of time."""

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, WithJsonSchema

from jobs import windows
from jobs.files import UPLOAD_PURPOSES
from jobs.requests import BODIES

MAX_METADATA = 16
MAX_METADATA_KEY = 64
MAX_METADATA_VALUE = 512


class Sent(BaseModel):
    """A body: a misspelt parameter is refused, for its sender would wait for it in vain."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def _without_nul(text: str) -> str:
    if "\x00" in text:
        raise ValueError("may not hold U+0000")
    return text


# Postgres stores any text but that with U+0000.
Text = Annotated[str, AfterValidator(_without_nul)]


def _small(metadata: dict[str, str]) -> dict[str, str]:
    if len(metadata) > MAX_METADATA:
        raise ValueError(f"at most {MAX_METADATA} pairs")
    for key, value in metadata.items():
        if not 0 < len(key) <= MAX_METADATA_KEY or len(value) > MAX_METADATA_VALUE:
            raise ValueError(
                f"keys have 1 to {MAX_METADATA_KEY} characters, values at most {MAX_METADATA_VALUE}"
            )
    return metadata


def _purpose(text: str) -> str:
    if text not in UPLOAD_PURPOSES:
        raise ValueError(f"must be one of {', '.join(UPLOAD_PURPOSES)}")
    return text


Purpose = Annotated[
    str, AfterValidator(_purpose), WithJsonSchema({"type": "string", "enum": UPLOAD_PURPOSES})
]
Metadata = Annotated[dict[Text, Text], AfterValidator(_small)]
# Seconds.  OpenAI's bounds.
MIN_EXPIRY = 3600
MAX_EXPIRY = 30 * 24 * 3600


class Expiry(Sent):
    anchor: Literal["created_at"]
    seconds: Annotated[int, Field(ge=MIN_EXPIRY, le=MAX_EXPIRY)]


Priority = Literal["bulk", "interactive"]


def _window_text(text: str) -> str:
    windows.parse(text)
    return text


Window = Annotated[
    str,
    AfterValidator(_window_text),
    WithJsonSchema({"type": "string", "pattern": "^[0-9]{1,4}[hd]$"}),
]


def _supported(endpoint: str) -> str:
    if endpoint not in BODIES:
        raise ValueError(f"must be one of {', '.join(sorted(BODIES))}")
    return endpoint


Endpoint = Annotated[
    str, AfterValidator(_supported), WithJsonSchema({"type": "string", "enum": sorted(BODIES)})
]


class Query(BaseModel):
    """A list's parameters: a misspelt `after` would give the first page for ever."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    after: str | None = None


class PageQuery(Query):
    limit: Annotated[int, Field(ge=1, le=100)] = 20


class FileQuery(Query):
    limit: Annotated[int, Field(ge=1, le=10_000)] = 10_000
    order: Literal["asc", "desc"] = "desc"
    purpose: Text | None = None
