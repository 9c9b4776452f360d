"""Public ids and what the server key derives."""

from uuid import UUID, uuid4

import pytest
from cryptography.fernet import InvalidToken
from hypothesis import given
from hypothesis import strategies as st

from jobs import ids
from jobs.secrets import Secrets


@given(st.uuids())
def test_a_public_id_leads_back_to_its_row(row_id: UUID) -> None:
    assert ids.parse(ids.FILE, ids.public(ids.FILE, row_id)) == row_id


@pytest.mark.parametrize("name", ["", "file-", "file-xyz", "batch_" + "0" * 32, "file-" + "٣" * 32])
def test_what_is_no_id_of_ours_is_none(name: str) -> None:
    assert ids.parse(ids.FILE, name) is None


def test_a_secret_comes_back_with_its_key_and_with_no_other() -> None:
    secrets = Secrets(Secrets.generate_key())

    sealed = secrets.encrypt("whsec_x")

    assert b"whsec_x" not in sealed
    assert secrets.decrypt(sealed) == "whsec_x"
    with pytest.raises(InvalidToken):
        Secrets(Secrets.generate_key()).decrypt(sealed)


def test_salts_differ_between_tenants_and_between_deployments() -> None:
    one, other = Secrets(Secrets.generate_key()), Secrets(Secrets.generate_key())
    tenant, neighbour = uuid4(), uuid4()

    assert len({one.salt(tenant), one.salt(neighbour), other.salt(tenant)}) == 3
    assert one.salt(tenant) == one.salt(tenant)
    assert one.salt(tenant) != one.sign(tenant.hex)
