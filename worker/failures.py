"""How a failure that a later round makes good is told in the log."""

import logging

from sqlalchemy.exc import OperationalError

from jobs.database import cause


def log_failure(log: logging.Logger, what: str, error: Exception, **about: object) -> None:
    """One line of a database that is away, for it is met by everything that goes on meanwhile;
    of what nobody expects, the traceback."""
    if isinstance(error, OperationalError):
        log.warning("%s: %s", what, cause(error), extra=about)
    else:
        log.error(what, exc_info=error, extra=about)
