"""What may be called at all.  Where a name leads is judged when it is called: egress.py."""

import pytest

from jobs import webhook_urls
from jobs.errors import InvalidValue


@pytest.mark.parametrize(
    "url",
    [
        "https://example.com/hook",
        "https://example.com:8443/hook?for=me",
        "https://93.184.216.34/",
        "https://[2606:2800:220:1::1]/",
    ],
)
def test_a_public_https_url_is_taken(url: str) -> None:
    webhook_urls.check(url, allow_private=False)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "hook",
        "//example.com/",
        "http://example.com/",
        "ftp://example.com/",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "https://",
        "https://:443/",
        "https://user@example.com/",
        "https://user:pw@example.com/",
        "https://@example.com/",
        "https://example.com:port/",
        "https://example.com:99999/",
        "https://[::1/",
        "https://exam ple.com/",
        "https://example.com/\n",
        "https://example.com/\x00",
        "https://exämple.com/",
        "https://example.com:22/",
        "https://example.com:0/",
        "https://localhost/",
        "https://api.localhost./",
        "https://127.0.0.1/",
        "https://10.0.0.1/",
        "https://169.254.169.254/latest/meta-data",
        "https://100.100.100.200/",
        "https://0.0.0.0/",
        "https://[::1]/",
        "https://[::ffff:127.0.0.1]/",
        "https://[fd00:ec2::254]/",
        "https://example.com/" + "a" * 2048,
    ],
)
def test_what_could_never_be_delivered_is_refused_at_once(url: str) -> None:
    with pytest.raises(InvalidValue) as refusal:
        webhook_urls.check(url, allow_private=False)

    assert refusal.value.param == "webhook_url"


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:9000/hook", "http://receiver/", "https://10.1.1.1/"]
)
def test_a_private_one_is_taken_where_that_is_allowed(url: str) -> None:
    webhook_urls.check(url, allow_private=True)
