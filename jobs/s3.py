"""The connection to S3: how long it may take, how often it tries, and what its errors are to us."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from jobs import metrics
from jobs.errors import ObjectMissing, ObjectRefused, StorageRefused, StorageUnavailable
from jobs.settings import StorageSettings

if TYPE_CHECKING:
    from mypy_boto3_s3.client import S3Client

# Of a refusal, those that the same call may be spared a moment later.
_PASSING = (408, 409, 429)

# Other refusals are of our keys, our clock or the call, and say nothing about the object.
_OF_THE_OBJECT = ("NoSuchBucket", "AccessDenied")


@contextmanager
def errors_named() -> Iterator[None]:
    try:
        yield
    except BotoCoreError as error:
        raise StorageUnavailable(f"S3: {error}") from error
    except ClientError as error:
        raise _kind(error)(f"S3: {error}") from error


def _kind(error: ClientError) -> type[StorageUnavailable]:
    code = error.response.get("Error", {}).get("Code")
    if code == "NoSuchKey":
        return ObjectMissing
    if code in _OF_THE_OBJECT:
        return ObjectRefused
    status = status_of(error)
    refused = 400 <= status < 500 and status not in _PASSING
    return StorageRefused if refused else StorageUnavailable


def status_of(error: ClientError) -> int:
    return error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)


def connect(settings: StorageSettings) -> "S3Client":
    config = Config(
        signature_version="s3v4",
        connect_timeout=5,
        read_timeout=30,
        tcp_keepalive=True,
        max_pool_connections=16,
        retries={"mode": "standard", "max_attempts": 4},
        s3={"addressing_style": "path" if settings.endpoint else "auto"},
        # Only Amazon is sure to take the newer checksum trailers; we keep our own sha256.
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
    )
    client = boto3.session.Session().client(
        "s3",
        endpoint_url=settings.endpoint,
        region_name=settings.region,
        aws_access_key_id=settings.access_key,
        aws_secret_access_key=settings.secret_key.get_secret_value(),
        config=config,
    )
    client.meta.events.register("after-call.s3", _count_refusal)
    client.meta.events.register("after-call-error.s3", _count_silence)
    return client


def _count_refusal(*, model: Any, parsed: dict[str, Any], **_: Any) -> None:
    if "Error" in parsed:
        metrics.S3_ERRORS.labels(model.name, parsed["Error"].get("Code", "none")).inc()


def _count_silence(*, exception: Exception, event_name: str, **_: Any) -> None:
    operation = event_name.rpartition(".")[2]
    metrics.S3_ERRORS.labels(operation, type(exception).__name__).inc()
