"""Which addresses a webhook may be sent to.  Pure."""

import ipaddress
from urllib.parse import SplitResult, urlsplit

from jobs.addresses import is_public
from jobs.errors import InvalidValue

MAX_LENGTH = 2048
_PORTS = (None, 443, 8443)


def check(url: str, *, allow_private: bool, param: str = "webhook_url") -> None:
    """Refuse at once what could never be delivered.  Raises InvalidValue.

    Where a host name leads is judged anew at each delivery; only an address can be judged here.
    """
    fault = _fault(url, allow_private=allow_private)
    if fault is not None:
        raise InvalidValue(f"'{param}' {fault}.", param=param)


def host_of(url: str) -> str:
    """Scheme, host and port of a URL that `check` let pass: what answers, or does not."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.lower()}"


def _fault(url: str, *, allow_private: bool) -> str | None:
    # urlsplit drops tabs and line feeds in silence, so that what is stored would not be what ran.
    if not url.isascii() or not url.isprintable() or " " in url:
        return "must hold only printable ASCII characters"
    try:
        parts = urlsplit(url)
        port = parts.port  # raises for a port that is none
    except ValueError:
        return "is not a URL"
    if parts.scheme != "https" and not (allow_private and parts.scheme == "http"):
        return "must begin with https://"
    if not parts.hostname or len(url) > MAX_LENGTH:
        return f"must name a host and have at most {MAX_LENGTH} characters"
    if parts.username is not None or parts.password is not None:
        return "must not hold a user name or password"
    return None if allow_private else _fault_in_public(parts, port)


def _fault_in_public(parts: SplitResult, port: int | None) -> str | None:
    if port not in _PORTS:
        return "must have port 443 or 8443"
    return None if _may_be_public(parts.hostname or "") else "must not be a private address"


def _may_be_public(host: str) -> bool:
    try:
        return is_public(ipaddress.ip_address(host))
    except ValueError:  # a name
        return host.rstrip(".").rpartition(".")[2] != "localhost"
