"""The body of a completion: what routes it; all else is judged by jobs/requests.py."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from api.schemas.sent import Text


class CompletionCreate(BaseModel):
    model_config = ConfigDict(extra="allow", strict=True, frozen=True)

    model: Annotated[Text, Field(min_length=1)]
    stream: bool | None = None
