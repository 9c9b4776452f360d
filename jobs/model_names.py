"""What to say to somebody who names a model that is not there.  Pure."""

from collections.abc import Sequence

_MAX_NAMED = 5
_MAX_SHOWN = 80  # characters of a name


def no_such_model(name: str, there_are: Sequence[str]) -> str:
    """One sentence that names the first few of those that there are."""
    missing = f"There is no model named {name[:_MAX_SHOWN]!a}"
    if not there_are:
        return f"{missing}; no worker has offered one yet."
    named = ", ".join(each[:_MAX_SHOWN] for each in there_are[:_MAX_NAMED])
    more = len(there_are) - _MAX_NAMED
    rest = f" and {more:,} more, which GET /v1/models lists" if more > 0 else ""
    return f"{missing}; there {'is' if len(there_are) == 1 else 'are'} {named}{rest}."
