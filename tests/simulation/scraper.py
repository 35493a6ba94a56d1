"""Scrapes a stage's daemons as Prometheus would, and lets promtool evaluate alerts on the result.

At each scrape interval it stores the output of the product's collectors, as series for promtool's
tests of rules. The story notes which alerts should fire at which moment; after the story promtool
checks that.
"""

import asyncio
import json
import re
import subprocess
from collections.abc import Collection
from itertools import chain
from pathlib import Path

from minikafka.runtime.metrics import Format, labels, write

from .cluster import Daemon, Properties
from .inside import collectors_of
from .loop import ProcessState
from .stage import Stage

METRICS: Properties = {"metrics.listener": "0.0.0.0:9404"}
"""The properties of a daemon that is scraped."""
INTERVAL_S = 15
TIMEOUT_S = 10
JUDGED_WITHIN_S = 120
LINE = re.compile(r"^([a-zA-Z_]\w*)(?:{(.*)})? (\S+)$", re.MULTILINE)


def exposition(daemon: Daemon) -> str | None:
    """Return the metrics that a daemon would answer now; None if it would not answer."""
    process = daemon.process
    if process is None or process.state is not ProcessState.RUNNING or daemon.service is None:
        return None
    collectors = collectors_of(daemon.service)

    def read() -> bytes:
        families = chain.from_iterable(collect() for collect in collectors)
        return b"".join(write(families, Format.OPEN_METRICS))

    # What a scrape starts, the questions about groups, belongs to the process.
    return process.context.copy().run(read).decode()


class Scraper:
    """Scrapes the daemons of a stage until the story ends, and keeps the metrics of these names."""

    def __init__(self, stage: Stage, job: str, names: Collection[str]) -> None:
        self._stage = stage
        self._job = job
        self._names = frozenset(names)
        self._began = stage.now
        self._tick = 0
        self._series: dict[str, dict[int, str]] = {}
        self._expected: list[tuple[int, tuple[str, ...]]] = []
        self._running = asyncio.ensure_future(self._scrape_on())

    async def minutes(self, count: float) -> None:
        """Let so many minutes of simulated time pass."""
        await asyncio.sleep(60 * count)

    def expect(self, *alerts: str) -> None:
        """Note that at the newest scrape these alerts should fire, and no others."""
        self._expected.append((self._tick, alerts))

    async def _scrape_on(self) -> None:
        while True:
            for daemon in self._stage.cluster.daemons.values():
                await self._scrape(daemon)
            due = self._began + (self._tick + 1) * INTERVAL_S
            await asyncio.sleep(due - self._stage.now)
            self._tick += 1

    async def _scrape(self, daemon: Daemon) -> None:
        told = exposition(daemon)
        for _ in range(TIMEOUT_S):
            if told is None and daemon.alive:
                # It is stopped for the moment, or starts: a scraper waits for its answer.
                await asyncio.sleep(1)
                told = exposition(daemon)
        target = labels(
            job=self._job,
            instance=f"{daemon.name}:9404",
            node_kind=daemon.name.partition("-")[0],
            node_id=daemon.properties["node.id"],
        )
        self._note(f"up{target}", str(int(told is not None)))
        for name, own, value in LINE.findall(told or ""):
            if name in self._names:
                self._note(f"{name}{target[:-1]}{own and ','}{own}}}", value)

    def _note(self, series: str, value: str) -> None:
        self._series.setdefault(series, {})[self._tick] = value

    def judge(self, promtool: str, rules: Path) -> None:
        """Check by promtool that these rules fire the expected alerts on the scrapes."""
        fire = 'group by (alertname) (ALERTS{alertstate="firing"})'
        test = {
            "interval": f"{INTERVAL_S}s",
            "input_series": [
                {"series": name, "values": _values(values, self._tick)}
                for name, values in self._series.items()
            ],
            "promql_expr_test": [
                {
                    "expr": fire,
                    "eval_time": f"{tick * INTERVAL_S}s",
                    "exp_samples": [
                        {"labels": f'{{alertname="{alert}"}}', "value": 1} for alert in alerts
                    ],
                }
                for tick, alerts in self._expected
            ],
        }
        document = {
            "rule_files": [rules.name],
            "evaluation_interval": f"{INTERVAL_S}s",
            "tests": [test],
        }
        file = rules.with_name("scrapes.yml")
        file.write_text(json.dumps(document))
        done = subprocess.run(
            [promtool, "test", "rules", str(file)],
            capture_output=True,
            text=True,
            timeout=JUDGED_WITHIN_S,
        )
        assert done.returncode == 0, done.stdout + done.stderr


def _values(scraped: dict[int, str], last: int) -> str:
    """Write one series in promtool's notation; a missing sample ends it, as in Prometheus."""
    told = []
    for tick in range(last + 1):
        gone = "stale" if tick - 1 in scraped else "_"
        told.append(scraped.get(tick, gone))
    return " ".join(told)
