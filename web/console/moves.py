"""The screen of reassignments: those under way, and a plan that spreads a topic over brokers."""

from starlette.requests import Request

from ...client.cli.reassignment import to_json
from ...runtime.errors import ConfigError
from . import asking, screens
from .desk import SIGHT_MS, Desk
from .pages import Screen
from .views.moves import (
    MOST_MOVING,
    MovesView,
    PlanRow,
    largest_sizes,
    moving_rows,
    placement_of,
    plan_rows,
)


async def show(desk: Desk, request: Request) -> Screen:
    """Show reassignments, and the plan for the topic and the brokers that the address names."""
    seen = await desk.link.shared(SIGHT_MS, asking.moves, MOST_MOVING)
    racks = {one.node_id: one.rack for one in await desk.brokers()}
    topic = request.query_params.get("topic", "").strip()
    brokers = request.query_params.get("brokers", "").strip() or ",".join(map(str, racks))
    wrong = ""
    plan: tuple[PlanRow, ...] = ()
    chosen = [int(one) for one in brokers.split(",") if one.strip().isdecimal()]
    found = await desk.link.shared(SIGHT_MS, asking.topic, topic) if topic else None
    if topic and found is None:
        wrong = f"The cluster has no topic {topic}."
    elif topic and not (chosen and all(one in racks for one in chosen)):
        wrong = f"Brokers: must be some of {', '.join(map(str, racks))}, with commas between."
    elif found is not None:
        partitions = tuple(placement_of(found))
        sizes = largest_sizes(await screens.log_dirs(desk, racks, partitions), topic)
        try:
            plan = plan_rows(found, {one: racks[one] for one in chosen}, sizes)
        except ConfigError as error:
            wrong = str(error)
    text = to_json({row.where: row.after for row in plan if row.is_moved})
    rows = moving_rows(seen.moving, seen.topics)
    view = MovesView(rows, len(seen.moving), topic, brokers, wrong, plan, text)
    return Screen(
        "reassignments.html", "Reassignments", view, refresh_ms=SIGHT_MS, here="/reassignments"
    )
