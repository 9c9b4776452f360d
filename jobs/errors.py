"""Every error that the job domain raises on purpose.

JobsError
├── RequestRefused            the client's doing; api/errors.py gives each leaf a status
│   ├── NotAuthenticated
│   ├── NotFound
│   ├── InvalidValue
│   ├── MissingParameter
│   ├── UnknownParameter
│   ├── InvalidEncoding
│   ├── InvalidJson
│   ├── ModelNotFound
│   ├── TooLarge
│   ├── NotPermitted
│   ├── NotAllowedNow
│   ├── FileChanged
│   ├── IdempotencyConflict
│   └── QuotaExceeded
│       ├── OverQuota
│       ├── TokenLimitExceeded
│       └── RateLimited
├── BodyRefused               one request's body; its own 400, in the file or in the answer
├── BatchRefused              a batch's file; ends the batch as failed
├── LeaseLost                 nobody's fault; the work is dropped
├── SegmentDamaged            S3 gave other bytes than were written; tried again, never published
├── InputDamaged              the same of what a shard is to run; tried again, never run
└── StorageUnavailable        S3 did not answer within its bounds; the work may be tried again
    └── StorageRefused        S3 answered, and said no
        ├── NotDeleted        of some of the objects that were to go
        └── ObjectRefused     for the sake of that object, which is not ours to use
            └── ObjectMissing for there is none

Anything else is a bug and escapes.
"""

from typing import ClassVar


class JobsError(Exception):
    pass


class RequestRefused(JobsError):
    """`code` is stable and goes to clients and metrics; the text says what to do."""

    code: ClassVar[str]

    def __init__(self, message: str, *, param: str | None = None) -> None:
        super().__init__(message)
        self.param = param


class NotAuthenticated(RequestRefused):
    code = "invalid_api_key"


class NotFound(RequestRefused):
    code = "not_found"


class InvalidValue(RequestRefused):
    code = "invalid_value"


class MissingParameter(RequestRefused):
    code = "missing_required_parameter"


class UnknownParameter(RequestRefused):
    code = "unknown_parameter"


class InvalidEncoding(RequestRefused):
    code = "invalid_encoding"


class InvalidJson(RequestRefused):
    code = "invalid_json"


class ModelNotFound(RequestRefused):
    code = "model_not_found"


class TooLarge(RequestRefused):
    code = "too_large"


class NotPermitted(RequestRefused):
    """The tenant may not do this; its operator could let it."""

    code = "not_permitted"


class NotAllowedNow(RequestRefused):
    """The object's state does not admit this any more."""

    code = "not_allowed_now"


class FileChanged(RequestRefused):
    """The object behind a file is not the one that was registered any more."""

    code = "file_changed"


class IdempotencyConflict(RequestRefused):
    code = "idempotency_conflict"


class QuotaExceeded(RequestRefused):
    """The tenant has its share.  `retry_after`, in seconds, is when it is worth trying again."""

    def __init__(self, message: str, *, param: str | None = None, retry_after: int = 10) -> None:
        super().__init__(message, param=param)
        self.retry_after = retry_after


class OverQuota(QuotaExceeded):
    code = "quota_exceeded"


class TokenLimitExceeded(QuotaExceeded):
    code = "token_limit_exceeded"


class RateLimited(QuotaExceeded):
    code = "rate_limit_exceeded"


class BodyRefused(JobsError):
    """One request's body is wrong.  Its neighbours run."""

    def __init__(self, message: str, *, param: str | None = None, code: str = "invalid_value"):
        super().__init__(message)
        self.param = param
        self.code = code


class BatchRefused(JobsError):
    """The file is wrong as a whole."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class LeaseLost(JobsError):
    """Another owner holds this shard or job now, or its job is stopping.  Write nothing more."""


class SegmentDamaged(JobsError):
    """A segment's object is not what its rows say.  Nothing that was read of it may be used."""


class InputDamaged(JobsError):
    """A shard's input is not what planning wrote, or not there.  None of it may be run."""


class StorageUnavailable(JobsError):
    pass


class StorageRefused(StorageUnavailable):
    """The same call is refused again until somebody changes the bucket, its rights or its keys."""


class NotDeleted(StorageRefused):
    """The other objects of the call are gone; `keys` are there, and may be asked for again."""

    def __init__(self, keys: frozenset[str], why: str) -> None:
        super().__init__(f"S3: {len(keys)} objects were not deleted, {min(keys)} first: {why}")
        self.keys = keys


class ObjectRefused(StorageRefused):
    """It is not our keys or the call that S3 minds: the object is not there, or not for us."""


class ObjectMissing(ObjectRefused):
    pass
