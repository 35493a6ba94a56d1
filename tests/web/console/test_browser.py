"""The console in a real browser: each screen, a leader that dies in view, a thousand topics."""

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from minikafka import Admin, NewTopic, Producer

from ...support.cluster import Cluster
from .conftest import SCRIPT, TOPIC

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Route

playwright = pytest.importorskip("playwright.sync_api")

CHROMIUM = next((path for path in map(Path, ("/usr/bin/chromium",)) if path.exists()), None)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.peers,
    pytest.mark.processes,
    pytest.mark.timeout(180),
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed (apt install chromium)"),
]
SOON_MS = 30_000


@contextlib.contextmanager
def console(bootstrap: str, *flags: str) -> Iterator[str]:
    """A console of its own process; gives its address."""
    command = [sys.executable, "-m", "minikafka", "console", "--bootstrap-server", bootstrap]
    process = subprocess.Popen([*command, "--port", "0", *flags], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("ready http://"), line
        yield line.removeprefix("ready ").strip().rstrip("/")
    finally:
        process.terminate()
        assert process.wait(30) in (0, 130, -15)
        assert process.stdout is not None
        process.stdout.close()


@pytest.fixture(scope="module")
def browser() -> Iterator["Browser"]:
    with playwright.sync_playwright() as driver:
        # Root may not use the sandbox; the pages are ours.
        one = driver.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        yield one
        one.close()


@pytest.fixture
def page(browser: "Browser") -> Iterator["Page"]:
    """A page that fails the test for whatever its scripts or its policy complain of."""
    context = browser.new_context(color_scheme="dark", reduced_motion="reduce")
    one = context.new_page()
    one.set_default_timeout(SOON_MS)
    playwright.expect.set_options(timeout=SOON_MS)
    complaints: list[str] = []
    one.on("pageerror", lambda error: complaints.append(str(error)))
    one.on("dialog", lambda dialog: complaints.append(f"dialog {dialog.message}"))
    one.on(
        "console",
        lambda said: complaints.append(said.text) if "Content Security" in said.text else None,
    )
    yield one
    context.close()
    assert complaints == []


def expect_text(page: "Page", text: str) -> None:
    playwright.expect(page.locator("main")).to_contain_text(text)


def test_every_screen_can_be_reached_and_moves(page: "Page", cluster: Cluster) -> None:
    with console(cluster.bootstrap) as address:
        page.goto(address)
        expect_text(page, "Everything is in order.")
        for name, text in (
            ("Brokers", "in service"),
            ("Topics", TOPIC),
            ("Groups", SCRIPT),
            ("Transactions", "never-ends"),
            ("Configs", "min.insync.replicas"),
            ("Quorum", "Active controller"),
            ("Elections", "No election was seen."),
            ("Reassignments", "Nothing moves."),
            ("Overview", "Everything is in order."),
        ):
            page.get_by_role("navigation", name="Screens").get_by_role("link", name=name).click()
            expect_text(page, text)
            assert page.locator("h1").count() == 1
        before = page.locator(".live-mark time").inner_text()
        page.wait_for_function(
            "before => document.querySelector('.live-mark time').innerText !== before", arg=before
        )


def test_a_page_moves_though_its_scripts_come_late(page: "Page", cluster: Cluster) -> None:
    held: list[Route] = []
    page.route("**/hx-sse-*", lambda route: held.append(route))
    with console(cluster.bootstrap) as address:
        page.goto(address, wait_until="commit")
        page.wait_for_function("() => window.htmx")
        # All timers that were set until now run before this one.
        page.evaluate("new Promise(done => setTimeout(done, 100))")
        with page.expect_request("**/live/"):
            held[0].continue_()


def test_a_leader_that_dies_is_seen_to_die_and_to_come_back(page: "Page", tmp_path: Path) -> None:
    with Cluster(tmp_path, brokers=3) as one:
        one.start()
        with Admin(one.bootstrap) as admin:
            admin.create_topics([NewTopic("t", assignments={0: [1, 2, 3]})])
        with Producer(one.bootstrap) as producer, console(one.bootstrap) as address:
            producer.send("t", b"before").result(SOON_MS / 1000)
            page.goto(f"{address}/elections")
            expect_text(page, "No election was seen.")
            page.goto(f"{address}/topics/t/0")
            expect_text(page, "Broker 1 leads. Every replica is in sync.")
            expect_facts(page, log_end="1", leader_epoch="0", in_sync="1, 2, 3")
            one.broker(1).kill()
            expect_text(page, "Broker 2 leads. Not in sync: 1.")
            playwright.expect(page.locator("#replica-1")).to_contain_text("NETWORK_EXCEPTION")
            playwright.expect(page.locator("#replica-2")).to_contain_text("leader")
            producer.send("t", b"meanwhile").result(SOON_MS / 1000)
            expect_facts(page, log_end="2", leader_epoch="1", in_sync="2, 3")
            one.broker(1).start()
            expect_text(page, "Broker 2 leads. Every replica is in sync.")
            expect_facts(page, log_end="2", leader_epoch="1", in_sync="1, 2, 3")
            page.goto(f"{address}/elections")
            playwright.expect(page.get_by_role("row", name="t-0")).to_contain_text("1 2 1")


def expect_facts(page: "Page", **facts: str) -> None:
    """Wait until the facts above the lanes are these."""
    for name, value in facts.items():
        term = page.locator(".facts div", has_text=name.replace("_", " ").capitalize())
        playwright.expect(term.locator("dd")).to_have_text(value)


def test_the_keyboard_reaches_content_and_search(page: "Page", cluster: Cluster) -> None:
    with console(cluster.bootstrap) as address:
        page.goto(f"{address}/topics")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        page.keyboard.press("Enter")
        assert page.url.endswith("#main")
        page.keyboard.press("/")
        page.keyboard.type("fli")
        playwright.expect(page.locator("#topic-other")).to_have_count(0)
        playwright.expect(page.locator(f"#topic-{TOPIC}")).to_have_count(1)
        assert "q=fli" in page.url


def test_messages_are_shown_and_scripts_are_only_text(page: "Page", cluster: Cluster) -> None:
    with console(cluster.bootstrap) as address:
        page.goto(f"{address}/topics/{TOPIC}/messages?partition=1")
        expect_text(page, "That is all there is.")
        expect_text(page, SCRIPT)
        page.locator("details.row summary").first.click()
        expect_text(page, "00 ff fe")
        page.fill("#m-filter", "alert")
        page.get_by_role("button", name="Look").click()
        expect_text(page, "1 record found in 2")
        page.goto(f"{address}/topics/{TOPIC}/messages?from=tail")
        expect_text(page, "Waiting for records.")
        page.get_by_role("button", name="Stop").click()
        expect_text(page, "Stopped.")


def test_a_change_shows_its_command_as_it_is_typed(page: "Page", cluster: Cluster) -> None:
    with console(cluster.bootstrap, "--allow-changes") as address:
        page.goto(f"{address}/do/create-topic")
        page.get_by_label("Name").press_sequentially("typed")
        playwright.expect(page.locator("#by-command")).to_contain_text("--topic typed")
        page.get_by_label("Partitions").fill("1")
        page.get_by_role("button", name="Create").click()
        expect_text(page, "Topic typed is created.")
        page.get_by_role("link", name="Go on").click()
        page.locator("#p0 th a").click()
        expect_text(page, "Every replica is in sync.")
        playwright.expect(page.locator("#lag-chart canvas")).to_have_count(1)


def test_the_lag_of_a_group_is_drawn_while_its_page_is_open(page: "Page", cluster: Cluster) -> None:
    with console(cluster.bootstrap) as address:
        page.goto(f"{address}/groups/{quote(SCRIPT, safe='')}")
        for unit in ("records", "seconds"):
            chart = page.locator(f"#{unit}-chart")
            playwright.expect(chart.locator("canvas")).to_have_count(1)
            playwright.expect(chart.locator(".u-legend")).to_contain_text(unit)


def test_a_thousand_topics_are_pages_that_can_be_searched(page: "Page", tmp_path: Path) -> None:
    with Cluster(tmp_path, brokers=1) as one:
        one.start()
        with Admin(one.bootstrap) as admin:
            admin.create_topics([NewTopic(f"topic-{n:04}", 1, 1) for n in range(1000)])
        with console(one.bootstrap) as address:
            page.goto(f"{address}/topics")
            expect_text(page, "Page 1 of 20")
            page.get_by_role("link", name="Next").click()
            expect_text(page, "topic-0050")
            page.get_by_role("searchbox").press_sequentially("0777")
            expect_text(page, "1\u20131 of 1")


def test_a_console_outlives_its_cluster(page: "Page", tmp_path: Path) -> None:
    with Cluster(tmp_path, brokers=1) as one:
        settings = ["--command-property", "default.api.timeout.ms=1000"]
        with console(one.bootstrap, *settings) as address:
            page.goto(address)
            expect_text(page, "The cluster does not answer")
            one.start()
            expect_text(page, "Everything is in order.")
            one.kill()
            expect_text(page, "does not answer")


def test_a_page_outlives_its_console(page: "Page", cluster: Cluster) -> None:
    with console(cluster.bootstrap) as address:
        page.goto(address)
        playwright.expect(page.locator(".cut-off")).to_be_empty()
        port = address.rpartition(":")[2]
    expect_text(page, "The console does not answer.")
    with console(cluster.bootstrap, "--port", port):
        playwright.expect(page.locator(".cut-off")).to_be_empty()
