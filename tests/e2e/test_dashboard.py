"""An operator's browser before the real API process: signs in, watches a batch, is told of silence.

The browser is Debian's Chromium, which no wheel brings.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect, sync_playwright

from cli import our_programs, ports
from cli.process import Process
from jobs.database import Sessions
from jobs.secrets import Secrets
from tests.integration.dashboard.scene import MODEL, TTL, Scene, open_scene

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
PATIENCE = 30_000  # ms; a busy machine is slow, not wrong
SERVER_KEY = Secrets.generate_key()
STATS = {
    "running": 12,
    "waiting": 4,
    "kv_blocks_used": 300,
    "kv_blocks_total": 1_200,
    "output_tokens_per_second": 431.0,
    "prompt_tokens_per_second": 2_950.0,
    "prefix_hit_rate": 0.9,
    "cached_tokens": 9_000,
    "prefill_tokens_logical": 12_000,
}


@pytest.fixture
def scene(sessions: Sessions) -> Iterator[Scene]:
    with open_scene(sessions, Secrets(SERVER_KEY)) as scene:
        yield scene


@pytest.fixture
def settings(environment: dict[str, str]) -> dict[str, str]:
    ours = {"SECRETS__KEY": SERVER_KEY, "LEASES__TTL": f"PT{TTL.total_seconds():.0f}S"}
    return environment | ours


class Api:
    """The API process, which may be stopped and started again on the same port."""

    def __init__(self, settings: dict[str, str], *, logs: Path) -> None:
        port = ports.free_pairs(1)[0]
        self.url = f"http://{ports.HOST}:{port}"
        self._program = our_programs.api(settings, port=port, logs=logs)
        self.start()

    def start(self) -> None:
        self._process = Process(self._program)
        self._process.wait_ready()

    def stop(self) -> None:
        self._process.stop()


@pytest.fixture
def api(settings: dict[str, str], tmp_path: Path) -> Iterator[Api]:
    api = Api(settings, logs=tmp_path)
    yield api
    api.stop()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if not CHROMIUM.exists():
        pytest.fail(f"{CHROMIUM} is missing. Install it: apt-get install -y chromium")
    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def complaints() -> list[str]:
    """What the browser's console said was wrong."""
    return []


@pytest.fixture
def page(browser: Browser, complaints: list[str]) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1_440, "height": 900})
    page = context.new_page()
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on(
        "console",
        lambda said: complaints.append(said.text) if said.type in ("error", "warning") else None,
    )
    yield page
    context.close()


def sign_in(page: Page, api: Api, scene: Scene) -> None:
    page.goto(f"{api.url}/dashboard")
    page.get_by_label("Admin API key").fill(scene.key(admin=True))
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(f"{api.url}/dashboard/")


def gauge(page: Page, name: str) -> Locator:
    return page.locator(f"[data-series={name}]")


def test_an_operator_signs_in_and_watches_a_batch_progress(
    page: Page, api: Api, scene: Scene, complaints: list[str], tmp_path: Path
):
    worker = scene.worker(stats=STATS)
    scene.worker(model=None)
    job = scene.batch(total=80)
    scene.shard(job, rows=64)
    scene.shard(job, rows=16, owner=worker)

    sign_in(page, api, scene)

    expect(gauge(page, "waiting")).to_have_text("64")
    expect(gauge(page, "running")).to_have_text("12")
    expect(gauge(page, "tokens")).to_have_text("431")
    expect(gauge(page, "prefix")).to_have_text("75 %")
    bulk = page.get_by_role("table").filter(has_text=MODEL).first.get_by_role("row", name="bulk")
    expect(bulk.get_by_role("cell")).to_contain_text(["64", "4", "12"])
    bar = page.get_by_role("progressbar")
    expect(bar).to_have_attribute("value", "0.0000")

    bar_itself = bar.element_handle()
    scene.segment(job, ok=19, failed=1)

    expect(bar).to_have_attribute("value", "0.2500")
    assert bar_itself.get_attribute("value") == "0.2500"  # it moved; nothing was loaded again
    expect(page.get_by_role("row", name="batch_").get_by_text("of 80")).to_be_visible()
    expect(page.locator("[data-spark=tokens] .line")).to_have_attribute("d", re.compile("M.+L"))

    page.screenshot(path=tmp_path / "dashboard.png", full_page=True)
    assert complaints == []


def test_a_dashboard_without_an_answer_says_so_and_recovers(page: Page, api: Api, scene: Scene):
    sign_in(page, api, scene)
    lamp = page.get_by_role("status")
    expect(lamp).to_have_text("live")

    api.stop()

    expect(lamp).to_have_text("stale: the server does not answer")
    expect(page.locator("#age")).to_contain_text("these numbers are")

    api.start()

    expect(lamp).to_have_text("live")


def test_a_browser_whose_session_ends_is_sent_to_the_door(page: Page, api: Api, scene: Scene):
    sign_in(page, api, scene)

    page.context.clear_cookies()

    page.wait_for_url(f"{api.url}/dashboard/login")
