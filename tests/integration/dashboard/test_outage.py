from fastapi.testclient import TestClient

from api.dashboard.app import create_dashboard
from api.dashboard.sign_in import SESSION_COOKIE, Signer
from api.dashboard.snapshots import Snapshots
from jobs.database import Sessions
from jobs.operators import SignIn
from jobs.secrets import Secrets
from tests.integration.dashboard.scene import TTL


def test_without_a_database_the_dashboard_says_so_and_shows_nothing(
    no_database: Sessions, secrets: Secrets
):
    dashboard = create_dashboard(
        sessions=no_database, secrets=secrets, snapshots=Snapshots(no_database, beat_ttl=TTL)
    )
    cookie = Signer(secrets).cookie(SignIn("somebodyskey", ends_at=4_000_000_000))

    with TestClient(dashboard) as client:
        answer = client.get("/data", headers={"Cookie": f"{SESSION_COOKIE}={cookie}"})

    assert answer.status_code == 503
    assert answer.text == "The database does not answer. Try again in a moment."
