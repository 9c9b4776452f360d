"""What shape an answer must have, as clients ask for it.

Whether a schema or an expression can be kept is the engine's to say; here only their sizes are
judged.
"""

from typing import Annotated, Any, Literal

import orjson
from pydantic import BaseModel, ConfigDict, Field, field_validator

MAX_SCHEMA_BYTES = 60_000


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class TextFormat(_Strict):
    type: Literal["text"]


class JsonObjectFormat(_Strict):
    type: Literal["json_object"]


class JsonSchema(_Strict):
    """`strict` changes nothing: a schema is always kept."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
    description: str | None = None
    definition: Annotated[dict[str, Any], Field(alias="schema")]
    strict: bool | None = None

    @field_validator("definition")
    @classmethod
    def _not_large(cls, definition: dict[str, Any]) -> dict[str, Any]:
        try:
            size = len(orjson.dumps(definition))
        except TypeError as error:
            raise ValueError(f"not JSON: {error}") from error
        if size > MAX_SCHEMA_BYTES:
            raise ValueError(f"a schema has at most {MAX_SCHEMA_BYTES:,} bytes of JSON")
        return definition


class JsonSchemaFormat(_Strict):
    type: Literal["json_schema"]
    json_schema: JsonSchema


ResponseFormat = Annotated[
    TextFormat | JsonObjectFormat | JsonSchemaFormat, Field(discriminator="type")
]
