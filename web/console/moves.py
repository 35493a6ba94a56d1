"""The screen of reassignments: those under way, and a plan that spreads a topic over brokers."""

from starlette.requests import Request

from ...client.cli.reassignment import to_json
from ...runtime.errors import ConfigError
from . import screens
from .desk import SIGHT_MS, Desk
from .pages import Screen
from .views.moves import MovesView, PlanRow, largest_sizes, moving_rows, plan_rows


async def show(desk: Desk, request: Request) -> Screen:
    """Show reassignments, and the plan for the topic and the brokers that the address names."""
    sight = await desk.sight()
    topic = request.query_params.get("topic", "").strip()
    alive = [one.node_id for one in sight.cluster.brokers if not one.is_fenced]
    brokers = request.query_params.get("brokers", "").strip() or ",".join(map(str, alive))
    wrong = ""
    plan: tuple[PlanRow, ...] = ()
    chosen = [int(one) for one in brokers.split(",") if one.strip().isdecimal()]
    if topic and topic not in sight.topics:
        wrong = f"The cluster has no topic {topic}."
    elif topic and not (chosen and all(one in alive for one in chosen)):
        wrong = f"Brokers: must be some of {', '.join(map(str, alive))}, with commas between."
    elif topic:
        sizes = largest_sizes(await screens.log_dirs(desk, alive), topic)
        try:
            plan = plan_rows(sight, topic, tuple(chosen), sizes)
        except ConfigError as error:
            wrong = str(error)
    text = to_json({row.where: row.after for row in plan if row.is_moved})
    view = MovesView(moving_rows(sight), topic, brokers, wrong, plan, text)
    return Screen(
        "reassignments.html", "Reassignments", view, refresh_ms=SIGHT_MS, here="/reassignments"
    )
