"""The API's machine-readable form: FastAPI's, with what it cannot see for itself.

Bodies are read by api/bodies.py and not by FastAPI, and errors are api/errors.py's: so both are
named here, for whoever makes a client of the document.
"""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel

from api.schemas.errors import ErrorObject

_PLACE = "#/components/schemas/"

# Instead of FastAPI's 422, which nobody is ever answered with.
ANY_ERROR: dict[int | str, dict[str, Any]] = {
    "default": {"model": ErrorObject, "description": "What is wrong, and what to do about it"}
}


class Api(FastAPI):
    """FastAPI with our document."""

    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            # A copy: what the routes say of their bodies is every app's in this process.
            self.openapi_schema = _with_named_bodies(deepcopy(super().openapi()))
        return self.openapi_schema


def schema_of(body: type[BaseModel]) -> dict[str, Any]:
    """The schema of a body, for a route's `openapi_extra`."""
    return body.model_json_schema(ref_template=_PLACE + "{model}")


def _with_named_bodies(document: dict[str, Any]) -> dict[str, Any]:
    """Gathers the bodies' schemas, and what they refer to, where the document keeps the others."""
    named: dict[str, Any] = document["components"]["schemas"]
    for content in _contents(document):
        schema = content["schema"]
        named |= schema.pop("$defs", {})
        if "title" in schema:  # a form has none
            named[schema["title"]] = schema
            content["schema"] = {"$ref": _PLACE + schema["title"]}
    return document


def _contents(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for path in document["paths"].values():
        for operation in path.values():
            yield from operation.get("requestBody", {}).get("content", {}).values()
