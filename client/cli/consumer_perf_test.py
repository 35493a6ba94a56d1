"""`minikafka consumer-perf-test`: read records as fast as possible, report as Kafka's tool does.

Owns the flags and the measured loop; `performance` computes and formats the results.
"""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from ..group_types import RebalanceListener

from .common import bootstrap_server, client_settings, command_config, command_property, run
from .performance import HEADER, Consumed, consumer_progress, consumer_summary, metric_lines
from .terminal import progress

POLL_MS = 100
POLL_RECORDS = 10_000


@dataclass(frozen=True, slots=True)
class Plan:
    """The options of the test: topics, number of records, and the form of the report."""

    topic: str | None
    include: str | None
    count: int
    timeout_ms: int
    interval_ms: int
    date_format: str
    detailed: bool
    hide_header: bool
    prints_metrics: bool


@click.command("consumer-perf-test")
@bootstrap_server
@click.option("--topic", help="The topic to read.")
@click.option("--include", metavar="REGEX", help="Read the topics that match a regular expression.")
@click.option(
    "--num-records",
    "--messages",
    "count",
    required=True,
    type=click.IntRange(min=0),
    help="The number of records to read.",
)
@click.option("--group", help="The consumer group to join.")
@click.option(
    "--fetch-size",
    type=int,
    default=1024 * 1024,
    help="The most bytes in a fetch from one partition.",
)
@click.option("--from-latest", is_flag=True, help="Begin at the end instead of the beginning.")
@click.option(
    "--timeout", "timeout_ms", default=10_000, help="End when no record came for so many ms."
)
@click.option(
    "--show-detailed-stats", "detailed", is_flag=True, help="Print a line for each interval."
)
@click.option("--reporting-interval", "interval_ms", default=5000, help="The interval, in ms.")
@click.option(
    "--date-format",
    default="yyyy-MM-dd HH:mm:ss:SSS",
    help="The format of times, a pattern of Java's SimpleDateFormat.",
)
@click.option(
    "--print-metrics",
    "prints_metrics",
    is_flag=True,
    help="Print the consumer's metrics at the end.",
)
@click.option("--hide-header", is_flag=True, help="Do not print the names of the columns.")
@click.option("--socket-buffer-size", type=int, expose_value=False, hidden=True)
@command_config("--consumer.config")
@command_property("--consumer-property")
def consumer_perf_test(
    bootstrap: str,
    group: str | None,
    fetch_size: int,
    from_latest: bool,
    command_config: Path | None,
    command_properties: tuple[str, ...],
    **planned: Any,
) -> None:
    """Read records and report the rate.

    \b
    minikafka consumer-perf-test --bootstrap-server localhost:9092 --topic t --num-records 100000
    """
    plan = Plan(**planned)
    if (plan.topic is None) == (plan.include is None):
        raise click.UsageError("exactly one of --topic and --include is needed")
    usual = {
        "client.id": "perf-consumer-client",
        "auto.offset.reset": "latest" if from_latest else "earliest",
        "group.id": group,
        "max.partition.fetch.bytes": fetch_size,
        "max.poll.records": POLL_RECORDS,
        "check.crcs": "false",
    }
    settings = client_settings(bootstrap, command_config, command_properties, usual)
    run(_measure(settings, plan))


class Joining:
    """Measures the time in which the consumer has no partitions because its group rebalances."""

    def __init__(self) -> None:
        self.total_ms = 0
        self._told_ms = 0
        self._since_ms: float | None = None

    def listener(self) -> "RebalanceListener":
        """Return the listener to subscribe with; time without partitions counts from this call."""
        from ..group_types import RebalanceListener

        self._since_ms = _now_ms()
        return RebalanceListener(on_assigned=self._on_assigned, on_revoked=self._on_revoked)

    def _on_assigned(self, partitions: object) -> None:
        if self._since_ms is not None:
            self.total_ms += int(_now_ms() - self._since_ms)
        self._since_ms = None

    def _on_revoked(self, partitions: object) -> None:
        self._since_ms = _now_ms()

    def take(self) -> int:
        """Return the ms without partitions since the previous call."""
        new_ms, self._told_ms = self.total_ms - self._told_ms, self.total_ms
        return new_ms


async def _measure(settings: dict[str, str], plan: Plan) -> int:
    from ..consumer.consumer import Consumer
    from .console_consumer import topic_wait_ms, topics_to_read

    if not plan.hide_header:
        first = "time, threadId" if plan.detailed else "start.time, end.time"
        print(f"{first}, {HEADER}", flush=True)
    joining = Joining()
    async with Consumer.from_config(settings) as consumer:
        await consumer.subscribe(
            topics_to_read(plan.topic, plan.include),
            listener=joining.listener() if settings.get("group.id") else None,
            timeout_ms=topic_wait_ms(plan.timeout_ms),
        )
        begin = _consumed(0, 0)
        reported, end, last_ms = begin, begin, _now_ms()
        with progress(0 if plan.detailed else plan.count, "records") as tell:
            while end.count < plan.count and _now_ms() - last_ms <= plan.timeout_ms:
                records = await consumer.poll(
                    timeout_ms=POLL_MS, max_records=min(POLL_RECORDS, plan.count - end.count)
                )
                size = sum(len(r.key or b"") + len(r.value or b"") for r in records)
                end = _consumed(end.size_bytes + size, end.count + len(records))
                tell(end.count)
                if records:
                    last_ms = _now_ms()
                if end.at_ms - reported.at_ms >= plan.interval_ms:
                    if plan.detailed:
                        line = consumer_progress(reported, end, joining.take(), plan.date_format)
                        print(line, flush=True)
                    reported = end
        metrics, client_id = consumer.metrics(), consumer.config.client_id
    if end.count < plan.count:
        print(
            "WARNING: Exiting before consuming the expected number of messages: timeout "
            f"({plan.timeout_ms} ms) exceeded. You can use the --timeout option to increase "
            "the timeout."
        )
    if not plan.detailed:
        print(consumer_summary(begin, end, joining.total_ms, plan.date_format))
    if plan.prints_metrics:
        print("\n".join(metric_lines("consumer", client_id, metrics)))
    return 0 if end.count >= plan.count else 1


def _consumed(size_bytes: int, count: int) -> Consumed:
    return Consumed(time.time() * 1000.0, size_bytes, count)


def _now_ms() -> float:
    return time.monotonic() * 1000.0
