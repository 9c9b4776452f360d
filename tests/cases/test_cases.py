"""Every case of cases.py, through the official client, against a running stack."""

import pytest
from openai import BadRequestError

from tests.cases.cases import CASES, MODEL
from tests.e2e.client import Client, counts


@pytest.mark.parametrize("name", CASES)
def test_case(client: Client, name: str) -> None:
    content, params, expect = CASES[name]
    raw = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
    data = raw.replace(MODEL.encode(), client.model.encode())

    if expect.get("upload", 200) != 200:
        with pytest.raises(BadRequestError):
            client.submit_file(data, **params)
        return
    ended = client.wait(client.submit_file(data, **params))

    assert ended.status == expect["status"]
    found = ended.errors.data if ended.errors and ended.errors.data else []
    for error in expect.get("errors", []):
        assert error in [{"code": each.code, "line": each.line} for each in found]
    if "counts" in expect:
        total, completed, failed = counts(ended)
        assert {"total": total, "completed": completed, "failed": failed} == expect["counts"]
    if "ids" in expect:
        assert client.ids(ended.output_file_id) == expect["ids"]
    if "failed" in expect:
        refused = client.read(ended.error_file_id)
        assert {line["custom_id"]: line["response"]["status_code"] for line in refused} == (
            expect["failed"]
        )
