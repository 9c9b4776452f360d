"""What a command remembers of a file that it submits, so that it can go on after Ctrl-C.

The file beside the results comes once something has reached the server, and goes when the results
are complete.  Without it nothing is lost either: the Idempotency-Keys derive from the file and the
options, so that the server remembers for a day.
"""

import hashlib
import json
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self

from cli import private_file
from cli.errors import CommandFailed

_READ = 2**20


@dataclass(frozen=True, slots=True)
class Submission:
    """`key` says which file, with which options, in which deployment; `salt` that it is again."""

    key: str
    salt: str = ""
    file_id: str | None = None
    batch_id: str | None = None

    @classmethod
    def of(cls, path: Path, *, deployment: str, options: Mapping[str, Any]) -> Self:
        digest = _sha256(path)
        same = json.dumps([deployment, digest, path.name, options], sort_keys=True)
        return cls(hashlib.sha256(same.encode()).hexdigest())

    @property
    def idempotency_key(self) -> str:
        return f"{self.key}{self.salt}"

    def again(self) -> Self:
        """The same once more, as something new."""
        return replace(self, salt=f"-{uuid.uuid4().hex}")

    def with_file(self, file_id: str) -> Self:
        return replace(self, file_id=file_id)

    def with_batch(self, batch_id: str) -> Self:
        return replace(self, batch_id=batch_id)


class Memory:
    """One submission's file on disk."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def recall(self, fresh: Submission) -> Submission:
        """What is remembered of the same submission, else `fresh`."""
        try:
            known = Submission(**json.loads(self.path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):  # none, or none that is whole
            return fresh
        return known if known.key == fresh.key else fresh

    def keep(self, submission: Submission) -> None:
        private_file.write(self.path, asdict(submission))

    def forget(self) -> None:
        self.path.unlink(missing_ok=True)


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while chunk := file.read(_READ):
                digest.update(chunk)
    except OSError as error:
        raise CommandFailed(f"{path} cannot be read: {error.strerror}") from error
    return digest.hexdigest()
