"""Describes the changes and the cost of a plan in words and tables. Pure."""

from collections.abc import Iterator
from typing import Final

from ...client.cli.common import table
from ...client.partitions import name_of
from ...client.quantities import duration, size
from .checks import Cost
from .cluster import Cluster, Draft
from .plan_file import Plan

MOST_ROWS: Final = 40
"""The most partitions that are listed; the file has all of them."""


def report(
    cluster: Cluster, draft: Draft, plan: Plan, cost: Cost, throttle: int | None
) -> Iterator[str]:
    """Yield the lines that are printed for a plan."""
    yield f"Plan: {plan.goal}"
    yield ""
    yield from _brokers(cluster, draft)
    yield ""
    rows = [
        [
            name_of(where),
            _ids(plan.before[where]),
            _ids(replicas),
            size(cluster.partitions[where].size_bytes),
        ]
        for where, replicas in plan.after.items()
    ]
    yield from table(["PARTITION", "REPLICAS", "WILL BE", "SIZE"], rows[:MOST_ROWS])
    if len(rows) > MOST_ROWS:
        yield f"... and {len(rows) - MOST_ROWS} more"
    yield ""
    yield from _price(plan, cost, throttle)


def _brokers(cluster: Cluster, draft: Draft) -> Iterator[str]:
    rows = []
    for node_id, broker in sorted(cluster.brokers.items()):
        cells = [str(node_id), broker.rack or "-"]
        for placement in (cluster.placement, draft.placed):
            held = [where for where, replicas in placement.items() if node_id in replicas]
            led = sum(placement[where][0] == node_id for where in held)
            held_bytes = sum(cluster.partitions[where].size_bytes for where in held)
            cells += [str(len(held)), str(led), size(held_bytes)]
        rows.append(cells)
    figures_now = ["REPLICAS", "PREFERRED", "BYTES"]
    yield from table(
        ["BROKER", "RACK", *figures_now, *(f"THEN {one}" for one in figures_now)], rows
    )


def _price(plan: Plan, cost: Cost, throttle: int | None) -> Iterator[str]:
    count = len(plan.after)
    partitions = f"{count} partition{'' if count == 1 else 's'}"
    if not cost.copied_bytes:
        yield f"{partitions} change{'s' if count == 1 else ''}; no record is copied."
        return
    broker, most = max(cost.into.items(), key=lambda one: (one[1], -one[0]))
    line = (
        f"{partitions} change{'s' if count == 1 else ''}; {size(cost.copied_bytes)} are copied, at "
        f"most {size(most)} to one broker ({broker})."
    )
    if throttle is not None:
        least_ms = cost.least_ms(throttle)
        line += f" At {size(throttle)} a second that takes at least {duration(least_ms)}."
    yield line


def _ids(brokers: tuple[int, ...]) -> str:
    return ",".join(map(str, brokers))
