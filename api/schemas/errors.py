"""The Error object, as OpenAI's clients read it."""

from api.schemas.given import Given


class ErrorDetail(Given):
    """`code` is stable, `message` says what to do, `param` names what is wrong."""

    message: str
    type: str
    param: str | None
    code: str


class ErrorObject(Given):
    error: ErrorDetail
