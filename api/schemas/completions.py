"""The body of a completion: what routes it; all else is judged by jobs/requests.py."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from api.schemas.sent import Text


class StreamOptions(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)

    include_usage: bool | None = None


class CompletionCreate(BaseModel):
    model_config = ConfigDict(extra="allow", strict=True, frozen=True)

    model: Annotated[Text, Field(min_length=1)]
    stream: bool | None = None
    stream_options: StreamOptions | None = None

    @property
    def asked(self) -> dict[str, Any]:
        """What is asked of the model, however the answer is to be sent."""
        return self.model_dump(exclude_unset=True, exclude={"stream", "stream_options"})

    @property
    def wants_usage(self) -> bool:
        return bool(self.stream_options and self.stream_options.include_usage)
