"""The reset of a group's offsets: a preview, and then the change."""

from typing import Final

from starlette.requests import Request

from ...client.admin.admin import Admin
from ...client.cli.offset_resets import Bounds, Scenario, datetime_ms, duration_ms
from ...client.errors import ClientError
from ...protocol.errors import ApiError
from ...protocol.types import TopicPartition
from ...runtime.errors import MinikafkaError
from . import asking
from .desk import Desk
from .forms import check_token, read_form
from .pages import Screen
from .views.changes import BadField, Given, number
from .views.groups import FLAGS, ResetRow, ResetView, reset_command, reset_rows
from .views.words import plural

IDLE: Final = "Empty"
"""The state of a group without members; a group that was never used can be reset as well."""


async def show(desk: Desk, request: Request) -> Screen:
    """Show the offsets that a reset would give a group, partition by partition."""
    return await _screen(desk, request.path_params["group"], request.query_params)


async def send(desk: Desk, request: Request) -> Screen:
    """Compute the previewed reset again, and carry it out."""
    group_id: str = request.path_params["group"]
    given = await read_form(request)
    check_token(desk, given)
    scenario, amount, time_ms = _target(desk, given)

    async def change(admin: Admin) -> int:
        rows = await _rows(admin, group_id, given.get("topic", ""), scenario, (amount, time_ms))
        await admin.alter_group_offsets(group_id, {row.where: row.target for row in rows})
        return len(rows)

    try:
        count = await desk.link.ask(change)
    except (ApiError, ClientError) as error:
        return await _screen(desk, group_id, given, f"The group was not reset: {error}")
    finally:
        desk.link.forget()
    command = desk.pages.command(*_command(group_id, given, execute=True))
    sentence = f"Group {group_id} goes on elsewhere in {plural(count, 'partition')}."
    more = {"command_line": command, "back": f"/groups/{group_id}"}
    return Screen("done.html", f"Reset {group_id}", sentence, here="/groups", more=more)


async def _screen(desk: Desk, group_id: str, given: Given, wrong: str = "") -> Screen:
    async def ask(admin: Admin) -> tuple[str, tuple[ResetRow, ...]]:
        found = await asking.group(admin, group_id)
        state = "Empty" if found is None else found.state
        rows = await _rows(admin, group_id, given.get("topic", ""), scenario, (amount, time_ms))
        return state, rows

    state = ""
    rows: tuple[ResetRow, ...] = ()
    try:
        scenario, amount, time_ms = _target(desk, given)
        state, rows = await desk.link.ask(ask)
    except MinikafkaError as error:
        wrong = wrong or str(error)
    if state and state != IDLE and not wrong:
        wrong = f"The group is {state}: stop its members first, they would commit over a reset."
    is_possible = bool(rows) and state == IDLE
    scenario_name = given.get("scenario", "earliest")
    view = ResetView(
        group_id,
        scenario_name,
        given.get("amount", ""),
        given.get("topic", ""),
        rows,
        is_possible,
        _command(group_id, given, execute=True) if scenario_name in FLAGS else (),
    )
    title = f"Reset {group_id}"
    return Screen("reset.html", title, view, here="/groups", more={"wrong": wrong})


def _command(group_id: str, given: Given, *, execute: bool) -> tuple[str, ...]:
    scenario, topic = given.get("scenario", "earliest"), given.get("topic", "")
    return reset_command(group_id, scenario, given.get("amount", ""), topic, execute=execute)


def _target(desk: Desk, given: Given) -> tuple[Scenario, int, int]:
    """Parse scenario, amount, and time in ms; raise ConfigError or BadField if one is wrong."""
    name, text = given.get("scenario", "earliest"), given.get("amount", "").strip()
    if name not in FLAGS:
        raise BadField(f"To: {name[:50]!r} is not among the choices")
    if name in ("offset", "shift"):
        return FLAGS[name], number("Offset", text), 0
    if name == "time":
        return FLAGS[name], 0, datetime_ms(text)
    if name == "duration":
        return FLAGS[name], 0, desk.link.runtime.wall_ms() - duration_ms(text)
    return FLAGS[name], 0, 0


async def _rows(
    admin: Admin, group_id: str, topic: str, scenario: Scenario, target: tuple[int, int]
) -> tuple[ResetRow, ...]:
    amount, time_ms = target
    committed = await admin.list_group_offsets(group_id)
    if topic:
        found = await asking.topic(admin, topic)
        if found is None:
            raise BadField(f"Topic: the cluster has no topic {topic}")
        wanted = [TopicPartition(topic, one.partition) for one in found.partitions]
    else:
        wanted = list(committed)
    starts, ends = await asking.bounds(admin, wanted)
    at_time: dict[TopicPartition, int] = {}
    if scenario in (Scenario.DATETIME, Scenario.DURATION) and wanted:
        listed = await admin.list_offsets(dict.fromkeys(wanted, max(time_ms, 0)))
        at_time = {where: one.offset for where, one in listed.items() if one.offset >= 0}
    bounds = {
        where: Bounds(
            starts[where],
            ends[where],
            committed[where].offset if where in committed else None,
            at_time.get(where),
        )
        for where in wanted
        if where in starts and where in ends
    }
    return reset_rows(scenario, amount, bounds)
