"""Runs a failed test of real processes once more, and prints both outcomes.

A test that fails twice fails. A loaded machine may disturb real processes, which is no fault of the
test; still the summary names each test that needed two runs, and how the first one failed. Before
the second run all fixtures are torn down, also the clusters and the Spark session that tests share,
because the first run's topics and damage are still there. pytest-rerunfailures would keep shared
fixtures.

A simulated or pure test runs once: if it fails, the machine's load is not the cause.
"""

from typing import Any, Literal, cast

import pytest
from _pytest.runner import runtestprotocol

FOLDERS = ("chaos", "compat", "deploy", "spark", "system", "web")
"""The folders whose slow tests start processes. In other folders such tests are marked `processes`.
"""

FIRST_RUN = "first run failed"
"""The outcome of a failed first run, which makes the session neither pass nor fail."""

SHOWN_LINES = 30


def has_second_run(item: pytest.Item) -> bool:
    """Return whether the test is slow and starts processes."""
    if item.get_closest_marker("slow") is None:
        return False
    folder = item.nodeid.partition("tests/")[2].partition("/")[0]
    return folder in FOLDERS or item.get_closest_marker("processes") is not None


def pytest_runtest_protocol(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Literal[True] | None:
    """Run one test of real processes; others are left to pytest."""
    if not has_second_run(item):
        return None
    hook = item.ihook
    hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports = runtestprotocol(item, log=False, nextitem=nextitem)
    failures = [report for report in reports if report.failed]
    if failures:
        failures += _tear_down_what_is_shared(item)
        for report in failures:
            report.outcome = cast(Any, FIRST_RUN)
        reports = failures + runtestprotocol(item, log=False, nextitem=nextitem)
    for report in reports:
        hook.pytest_runtest_logreport(report=report)
    hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, str] | None:
    """Show the failure of a first run as R."""
    if cast(str, report.outcome) == FIRST_RUN:
        return FIRST_RUN, "R", "FAILED, AND RUNS AGAIN"
    return None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name each test that needed two runs, both outcomes, and how the first run failed."""
    stats = terminalreporter.stats
    if FIRST_RUN not in stats:
        return
    red = {report.nodeid for key in ("failed", "error") for report in stats.get(key, [])}
    terminalreporter.section("ran twice")
    for report in stats[FIRST_RUN]:
        second = "failed" if report.nodeid in red else "passed"
        terminalreporter.line(f"{report.nodeid}: failed in its {report.when}, then {second}")
        for line in report.longreprtext.splitlines()[-SHOWN_LINES:]:
            terminalreporter.line(f"    {line}")


def _tear_down_what_is_shared(item: pytest.Item) -> list[pytest.TestReport]:
    """Tear down the fixtures of the module and of the session; return the errors of that."""
    ended = pytest.CallInfo.from_call(
        lambda: item.session._setupstate.teardown_exact(None), "teardown"
    )
    report = pytest.TestReport.from_item_and_call(item, ended)
    return [report] if report.failed else []
