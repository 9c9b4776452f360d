"""The Model object."""

from typing import Literal

from api.schemas.given import Given, Named, unix
from jobs.models import Model


class ModelObject(Named):
    object: Literal["model"] = "model"
    created: int
    owned_by: Literal["gristmill"] = "gristmill"

    @classmethod
    def of(cls, model: Model) -> "ModelObject":
        return cls(id=model.name, created=unix(model.created_at))


class ModelList(Given):
    object: Literal["list"] = "list"
    data: list[ModelObject]
