"""The map from refusals to statuses is whole."""

from pathlib import Path

import jobs.errors
from api.errors import ROUTING, STATUS
from jobs.errors import RequestRefused

DOCS = Path(__file__).parents[3] / "docs/api.md"


def leaves(kind: type[RequestRefused]) -> set[type[RequestRefused]]:
    below = kind.__subclasses__()
    return {kind} if not below else {leaf for child in below for leaf in leaves(child)}


def test_every_refusal_has_a_status() -> None:
    assert set(STATUS) == leaves(RequestRefused)


def test_every_status_is_the_clients_fault() -> None:
    assert all(400 <= status < 500 for status in STATUS.values())


def test_every_refusal_has_a_code_of_its_own() -> None:
    codes = [kind.code for kind in leaves(RequestRefused)]

    assert len(codes) == len(set(codes))


def test_every_code_is_in_the_documentation() -> None:
    codes = {kind.code for kind in STATUS} | set(ROUTING.values())

    assert {code for code in codes if f"`{code}`" not in DOCS.read_text(encoding="utf-8")} == set()


def test_the_tree_in_the_docstring_names_every_refusal() -> None:
    assert all(kind.__name__ in (jobs.errors.__doc__ or "") for kind in leaves(RequestRefused))
