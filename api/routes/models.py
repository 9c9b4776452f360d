"""`/v1/models`: the models that a job may name."""

from fastapi import APIRouter

from api.deps import CurrentCaller, DbSession
from api.schemas.models import ModelList, ModelObject
from jobs import reading

router = APIRouter(prefix="/v1/models", tags=["models"])


@router.get("")
def list_models(_: CurrentCaller, session: DbSession) -> ModelList:
    return ModelList(data=[ModelObject.of(model) for model in reading.list_models(session)])


# A name may hold a slash, as on Hugging Face.
@router.get("/{name:path}")
def read_model(name: str, _: CurrentCaller, session: DbSession) -> ModelObject:
    return ModelObject.of(reading.get_model(session, name=name))
