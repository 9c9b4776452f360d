"""Nobody sees or changes anything without a sign-in, a token, and a key that still stands."""

import re

import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient
from starlette.routing import Mount, Route

from api.dashboard.headers import HEADERS
from api.dashboard.routes import entrance, signed_in
from api.dashboard.sign_in import NONCE_COOKIE, SESSION_COOKIE, Signer
from jobs import keys
from jobs.database import Sessions
from jobs.models import JobState
from jobs.operators import SignIn
from jobs.secrets import Secrets
from tests.integration.dashboard.scene import Scene
from tests.integration.dashboard.visitor import Visitor

FAR_AWAY = 4_000_000_000  # seconds since 1970


def table(*routers) -> list[tuple[str, str]]:
    """Every method and path of these routers, so that a new route cannot be forgotten here."""
    routes = [route for router in routers for route in router.routes]
    assert all(isinstance(route, APIRoute) for route in routes)
    return sorted((method, route.path) for route in routes for method in route.methods)


@pytest.fixture
def operator(visitor: Visitor, scene: Scene) -> Visitor:
    """A browser that has signed in."""
    assert visitor.sign_in(scene.key(admin=True)).status_code == 303
    return visitor


def test_the_two_routers_and_the_static_files_are_all_there_is(dashboard: FastAPI):
    paths = {route.path for route in dashboard.routes if isinstance(route, Route | Mount)}

    assert paths - {path for _, path in table(signed_in, entrance)} == {"/static"}


@pytest.mark.parametrize(("method", "path"), table(signed_in))
@pytest.mark.law("P32")
def test_without_a_sign_in_every_page_sends_to_the_door(visitor: Visitor, method: str, path: str):
    answer = visitor.client.request(method, f"/dashboard{path}")

    if path == "/data":
        assert answer.status_code == 401
    else:
        assert answer.status_code == 303
        assert answer.headers["location"] == "/dashboard/login"
    assert "gauges" not in answer.text


@pytest.mark.parametrize(
    "path", [path for method, path in table(signed_in, entrance) if method == "POST"]
)
@pytest.mark.parametrize("fields", [{}, {"token": ""}, {"token": "0" * 64}])
@pytest.mark.law("P32")
def test_every_post_without_its_token_is_refused(
    operator: Visitor, path: str, fields: dict[str, str]
):
    operator.client.get("/dashboard/login")  # whose nonce the sign-in's token would answer

    answer = operator.client.post(f"/dashboard{path}", data=fields)

    assert answer.status_code == 403


def test_a_token_of_another_browser_is_refused(operator: Visitor, visitor: Visitor, scene: Scene):
    token = operator.token_of("/dashboard/")
    visitor.client.cookies.clear()
    visitor.sign_in(scene.key(admin=True))

    answer = visitor.client.post("/dashboard/logout", data={"token": token})

    assert answer.status_code == 403


def test_an_admin_key_signs_in_and_sees_the_page(visitor: Visitor, scene: Scene):
    answer = visitor.sign_in(scene.key(admin=True))

    assert answer.status_code == 303
    assert answer.headers["location"] == "/dashboard/"
    assert visitor.client.get("/dashboard/").status_code == 200
    assert visitor.client.get("/dashboard/data").status_code == 200


@pytest.mark.parametrize("key", ["", "nonsense", "gm_000000000000_" + "0" * 43])
def test_a_wrong_key_is_told_so_and_gets_no_session(visitor: Visitor, key: str):
    answer = visitor.sign_in(key)

    assert answer.status_code == 401
    assert 'role="alert"' in answer.text
    assert SESSION_COOKIE not in visitor.client.cookies


def test_a_key_that_is_not_an_admins_is_told_so(visitor: Visitor, scene: Scene):
    answer = visitor.sign_in(scene.key(admin=False))

    assert answer.status_code == 401
    assert "not an admin" in answer.text
    assert SESSION_COOKIE not in visitor.client.cookies


def test_signing_out_ends_the_session(operator: Visitor):
    token = operator.token_of("/dashboard/")

    answer = operator.client.post("/dashboard/logout", data={"token": token})

    assert answer.status_code == 303
    assert operator.client.get("/dashboard/data").status_code == 401


def test_revoking_the_key_signs_out_at_once(visitor: Visitor, scene: Scene, sessions: Sessions):
    key = scene.key(admin=True)
    visitor.sign_in(key)
    assert visitor.client.get("/dashboard/data").status_code == 200

    with sessions.begin() as session:
        keys.revoke_key(session, key_id=key.split("_")[1])

    assert visitor.client.get("/dashboard/data").status_code == 401
    assert visitor.client.get("/dashboard/").headers["location"] == "/dashboard/login"


def test_a_session_ends_by_the_databases_clock(visitor: Visitor, scene: Scene, secrets: Secrets):
    key_id = scene.key(admin=True).split("_")[1]

    def status(ends_at: int) -> int:
        cookie = Signer(secrets).cookie(SignIn(key_id, ends_at))
        visitor.client.cookies.set(SESSION_COOKIE, cookie, path="/dashboard")
        return visitor.client.get("/dashboard/data").status_code

    assert status(FAR_AWAY) == 200
    assert status(1_700_000_000) == 401


@pytest.mark.parametrize(
    "forge",
    [
        lambda cookie: cookie.replace(".", ".9", 1),  # a later end
        lambda cookie: cookie.rpartition(".")[0] + ".anotherkey00",
        lambda cookie: "0" * 64 + cookie[64:],
        lambda cookie: cookie[:64],
        lambda _: "..",
        lambda _: "",
    ],
)
def test_a_cookie_that_we_did_not_sign_is_nobodys(operator: Visitor, forge):
    cookie = forge(operator.client.cookies[SESSION_COOKIE])
    operator.client.cookies.clear()

    answer = operator.client.get(
        "/dashboard/data", headers={"Cookie": f"{SESSION_COOKIE}={cookie}"}
    )

    assert answer.status_code == 401


@pytest.mark.parametrize(("scheme", "secure"), [("http", False), ("https", True)])
def test_cookies_stay_out_of_scripts_other_sites_and_plain_text(
    dashboard: FastAPI, scene: Scene, scheme: str, secure: bool
):
    site = FastAPI()
    site.mount("/dashboard", dashboard)
    with TestClient(site, base_url=f"{scheme}://mill.test", follow_redirects=False) as client:
        nonce = client.get("/dashboard/login").headers["set-cookie"]
        session = Visitor(client).sign_in(scene.key(admin=True)).headers["set-cookie"]

    for name, cookie in ((NONCE_COOKIE, nonce), (SESSION_COOKIE, session)):
        assert cookie.startswith(f"{name}=")
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        assert "Path=/dashboard" in cookie
        assert "Max-Age=43200" in cookie  # 12 hours
        assert ("Secure" in cookie) is secure


@pytest.mark.parametrize(
    "path", ["/", "/data", "/login", "/static/frame.css", "/static/none", "/none"]
)
def test_every_answer_carries_the_safe_headers(operator: Visitor, path: str):
    answer = operator.client.get(f"/dashboard{path}")

    assert {name: answer.headers.get(name) for name in HEADERS} == HEADERS


@pytest.mark.parametrize("page", ["/dashboard/", "/dashboard/login"])
def test_a_page_holds_no_inline_script_or_style_and_nothing_foreign(operator: Visitor, page: str):
    html = operator.client.get(page).text

    assert not re.search(r"<style|\sstyle=|\son\w+=|javascript:", html)
    assert all('src="/dashboard/static/' in tag for tag in re.findall(r"<script[^>]*>", html))
    assert not re.search(r"(?:src|href|action)=\"(?!/dashboard/)", html)


def test_other_peoples_names_are_text_and_never_markup(operator: Visitor, scene: Scene):
    nasty = """<script>alert(1)</script>'"><img src=x onerror=alert(1)>"""
    scene.worker(model=nasty, host=nasty)
    scene.shard(scene.batch(model=nasty), rows=1, model=nasty)

    html = operator.client.get("/dashboard/").text

    assert "&lt;script&gt;alert(1)" in html
    assert "<script>alert" not in html
    assert "<img" not in html


def test_a_paused_batch_is_said_to_be_and_a_failed_one_waits_for_no_model(
    operator: Visitor, scene: Scene
):
    scene.batch(total=100, paused=True)
    scene.batch(state=JobState.FAILED, model=None)

    html = operator.client.get("/dashboard/").text

    assert 'data-state="paused"' in html
    assert "no model" in html
    assert "no model yet" not in html


def test_a_form_larger_than_any_of_ours_is_not_read(visitor: Visitor):
    answer = visitor.client.post("/dashboard/login", data={"token": "0" * 5_000})

    assert answer.status_code == 413
