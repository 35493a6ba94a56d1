"""`minikafka plan`: flags, order of requests and exit codes; the rules are in the other modules."""

import re
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from ...client.cli.common import (
    FILE,
    administer,
    bootstrap_option,
    command_config,
    options,
    say,
)
from ...client.cli.json_files import read_json
from ...client.cli.terminal import progress
from ...client.partitions import name_of
from ...protocol.types import TopicPartition
from ...runtime.errors import ConfigError
from .cluster import Cluster, Draft, PlanRefused
from .plan_file import OPTION, Plan

if TYPE_CHECKING:
    from ...client.admin.admin import Admin

COMPLAINT: Final = "minikafka plan"
_IDS: Final = re.compile(r"\d{1,10}(,\d{1,10})*", re.ASCII)

Goal = Callable[[Draft, list[TopicPartition]], None]


@click.group("plan")
def plan() -> None:
    """Plan a change of replicas: see the difference and its price, carry it out, undo it.

    \b
    minikafka plan drain --brokers 3 --output drain.json
    minikafka plan apply drain.json --throttle 50000000
    minikafka plan undo drain.json
    """


def _ids(context: click.Context, parameter: click.Parameter, value: str | None) -> tuple[int, ...]:
    if value is None:
        return ()
    if not _IDS.fullmatch(value):
        raise click.BadParameter("must be ids with commas between them, as in 1,2,3")
    return tuple(dict.fromkeys(int(each) for each in value.split(",")))


_common = options(
    bootstrap_option(),
    command_config(),
    click.option(
        "--output",
        type=click.Path(dir_okay=False, path_type=Path),
        help="The file that the plan is written to, for `plan apply`.",
    ),
    click.option(
        "--throttle",
        type=click.IntRange(min=1),
        metavar="B/s",
        help="Bytes per second of each broker, to tell how long it takes.",
    ),
    click.option("--ignore-racks", is_flag=True, help="Take every broker for a rack of its own."),
)
"""The options that every goal has."""
_topics = click.option(
    "--topics", metavar="TOPIC,...", help="Only the partitions of these topics. [default: all]"
)


@plan.command()
@_common
@_topics
def balance(topics: str | None, **common: Any) -> None:
    """Even out the bytes of brokers, and the partitions of which each is preferred leader.

    \b
    minikafka plan balance --output balance.json
    """
    from .goals import balance

    _make("balance", balance, topics, (), common)


@plan.command()
@_common
@click.option(
    "--brokers",
    "leaving",
    required=True,
    callback=_ids,
    metavar="ID,...",
    help="The brokers that shall hold nothing any more.",
)
def drain(leaving: tuple[int, ...], **common: Any) -> None:
    """Take every replica off brokers, so that they can be stopped for good.

    \b
    minikafka plan drain --brokers 3 --output drain.json
    """
    from .goals import drain

    goal = f"drain brokers {','.join(map(str, leaving))}"
    _make(goal, lambda draft, _: drain(draft, leaving), None, leaving, common)


@plan.command("rack-spread")
@_common
@_topics
def rack_spread(topics: str | None, **common: Any) -> None:
    """Put the replicas of each partition on as many racks as there are.

    \b
    minikafka plan rack-spread --output racks.json
    """
    from .goals import rack_spread

    _make("rack-spread", rack_spread, topics, (), common)


@plan.command("replication-factor")
@_common
@_topics
@click.option("--factor", required=True, type=click.IntRange(1, 100), help="Replicas of each.")
def replication_factor(topics: str | None, factor: int, **common: Any) -> None:
    """Give partitions another number of replicas.

    \b
    minikafka plan replication-factor --factor 3 --topics orders --output factor.json
    """
    from .goals import replication_factor

    goal = f"replication-factor {factor}"
    _make(goal, lambda draft, where: replication_factor(draft, where, factor), topics, (), common)


def _make(
    goal: str, reach: Goal, topics: str | None, leaving: tuple[int, ...], common: Mapping[str, Any]
) -> None:
    """Read the cluster, reach the goal in a draft, check it, print it and write the file."""
    from .carrying_out import read_cluster
    from .checks import check, cost_of
    from .report import report

    async def make(admin: "Admin") -> int:
        cluster_id, cluster = await read_cluster(admin)
        for broker in leaving:
            if broker not in cluster.brokers:
                raise PlanRefused(f"the cluster has no broker {broker}")
        allowed = [each for each in cluster.brokers if each not in leaving]
        draft = Draft(cluster, allowed, ignore_racks=common["ignore_racks"])
        if not draft.loads:
            raise PlanRefused("no broker is left that may hold replicas")
        reach(draft, _chosen(cluster, topics))
        after = draft.changes()
        check(cluster, after)
        if not after:
            say("Nothing has to change.")
            return 0
        before = {where: cluster.partitions[where].replicas for where in after}
        made = Plan(cluster_id, goal, before, after)
        for line in report(cluster, draft, made, cost_of(cluster, after), common["throttle"]):
            print(line)
        _save(made, common["output"])
        return 0

    administer(make, COMPLAINT, common["bootstrap"], common["command_config"])


def _chosen(cluster: Cluster, topics: str | None) -> list[TopicPartition]:
    if topics is None:
        return sorted(cluster.partitions)
    names = dict.fromkeys(topics.split(","))
    for name in names:
        if not any(where.topic == name for where in cluster.partitions):
            raise PlanRefused(f"the cluster has no topic {name}")
    return sorted(where for where in cluster.partitions if where.topic in names)


def _save(made: Plan, output: Path | None) -> None:
    if output is None:
        say("\nWith --output FILE the plan is kept, for `minikafka plan apply FILE`.")
        return
    try:
        output.write_text(made.text())
    except OSError as error:
        raise ConfigError("output", str(output), f"cannot be written: {error.strerror}") from error
    say(f"\nWritten to {output}: `minikafka plan apply {output}` carries it out.")


_made = options(
    bootstrap_option(), command_config(), click.argument("file", type=FILE, metavar="FILE")
)
"""The parameters of each command that takes a written plan."""
_moving = options(
    _made,
    click.option(
        "--throttle",
        type=click.IntRange(min=1),
        metavar="B/s",
        help="The most bytes per second that each broker copies.",
    ),
    click.option(
        "--wait/--no-wait",
        "is_waiting",
        default=True,
        show_default=True,
        help="Wait until it is done, and take the throttle away.",
    ),
)


@plan.command("apply")
@_moving
def apply(throttle: int | None, is_waiting: bool, **common: Any) -> None:
    """Carry out a plan. After an interruption, call it again: what is done stays done.

    \b
    minikafka plan apply drain.json --throttle 50000000
    """

    async def carry_out(admin: "Admin", made: Plan) -> int:
        from .carrying_out import begin

        found = await begin(admin, made, throttle)
        for where in found.gone:
            say(f"{name_of(where)}: its topic is gone")
        say(f"{made.goal}: {len(found.waiting)} begun, {len(found.done)} were done")
        return await _finish(admin, made) if is_waiting else 0

    _with_plan(carry_out, **common)


@plan.command()
@_moving
def undo(throttle: int | None, is_waiting: bool, **common: Any) -> None:
    """Take a plan back: cancel what moves, and move back what is done.

    \b
    minikafka plan undo drain.json --throttle 50000000
    """

    async def take_back(admin: "Admin", made: Plan) -> int:
        from .carrying_out import go_back

        back = await go_back(admin, made, throttle)
        say(f"{back.goal}: {len(back.after)} go back")
        return await _finish(admin, back) if is_waiting else 0

    _with_plan(take_back, **common)


@plan.command()
@_made
def status(**common: Any) -> None:
    """Tell how far a plan is. Exit code 0 if all of it is done, else 1.

    \b
    minikafka plan status drain.json
    """

    async def tell(admin: "Admin", made: Plan) -> int:
        from .carrying_out import look

        found = await look(admin, made)
        print(
            f"{made.goal}: {len(found.done)} done, {len(found.moving)} moving, "
            f"{len(found.waiting)} not begun, {len(found.gone)} gone, {len(found.others)} changed"
        )
        for where, replicas in sorted(found.others.items()):
            print(f"{name_of(where)}: somebody else moved it to {','.join(map(str, replicas))}")
        return 0 if len(found.done) + len(found.gone) == len(made.after) else 1

    _with_plan(tell, **common)


def _with_plan(
    do: "Callable[[Admin, Plan], Awaitable[int]]",
    bootstrap: str,
    command_config: Path | None,
    file: Path,
) -> None:
    made = Plan.parse(read_json(file, OPTION))
    administer(lambda admin: do(admin, made), COMPLAINT, bootstrap, command_config)


async def _finish(admin: "Admin", made: Plan) -> int:
    from .carrying_out import wait

    with progress(len(made.after), "partitions") as tell:
        await wait(admin, made, tell)
    say("done")
    return 0
