"""The screens: each reads what it needs from the cluster and passes it to its view."""

import asyncio
from collections.abc import Iterable
from typing import Final

from starlette.requests import Request

from ...client.admin.admin import Admin
from ...protocol.messages.describe_configs import ResourceType
from ...protocol.types import TopicPartition
from . import asking
from .changing import resource_of
from .desk import SIGHT_MS, Desk, NotThere
from .pages import Screen
from .views.brokers import LogDirs, broker_of, brokers_of
from .views.changes import resource_flags
from .views.configs import ConfigsView, config_rows
from .views.groups import group_of, groups_of, groups_page
from .views.overview import overview_of
from .views.partition import partition_of
from .views.quorum import quorum_of
from .views.topics import MOST_PARTITIONS, topic_of, topics_of
from .views.transactions import pins_of, transactions_of, transactions_page

LOG_DIRS_MS: Final = 10_000
TOPIC_MS: Final = 1_000
GROUPS_MS: Final = 3_000
GROUP_MS: Final = 1_000
REPLICAS_MS: Final = 500


async def overview(desk: Desk, request: Request) -> Screen:
    """Show the health of the cluster."""
    sight = await desk.sight()
    return Screen(
        "overview.html",
        "Overview",
        overview_of(sight),
        refresh_ms=SIGHT_MS,
        at_ms=sight.at_ms,
        more={"cluster_id": sight.cluster.cluster_id},
    )


async def brokers(desk: Desk, request: Request) -> Screen:
    """List the brokers."""
    asked = [one.node_id for one in await desk.brokers()]
    sight, found = await asyncio.gather(desk.sight(), log_dirs(desk, asked))
    return Screen(
        "brokers.html",
        "Brokers",
        brokers_of(sight, found),
        refresh_ms=SIGHT_MS,
        at_ms=sight.at_ms,
        here="/brokers",
    )


async def broker(desk: Desk, request: Request) -> Screen:
    """Show one broker; raise NotThere if the cluster has none of this id."""
    node_id: int = request.path_params["broker"]
    asked = [node_id for one in await desk.brokers() if one.node_id == node_id]
    sight, found = await asyncio.gather(desk.sight(), log_dirs(desk, asked))
    view = broker_of(sight, node_id, found)
    if view is None:
        raise NotThere(f"The cluster has no broker {node_id}.")
    return Screen(
        "broker.html",
        f"Broker {node_id}",
        view,
        refresh_ms=SIGHT_MS,
        at_ms=sight.at_ms,
        here="/brokers",
    )


async def topics(desk: Desk, request: Request) -> Screen:
    """List one page of the topics that match the search."""
    asked = request.query_params
    sight = await desk.sight()
    view = topics_of(sight, asked.get("q", ""), asked.get("only", ""), page_number(request))
    return Screen(
        "topics.html", "Topics", view, refresh_ms=SIGHT_MS, at_ms=sight.at_ms, here="/topics"
    )


async def topic(desk: Desk, request: Request) -> Screen:
    """Show one topic with its partitions; raise NotThere if there is no such topic."""
    name: str = request.path_params["topic"]
    seen = await desk.link.shared(TOPIC_MS, asking.topic_with_bounds, name, MOST_PARTITIONS)
    if seen is None:
        raise NotThere(f"The cluster has no topic {name}.")
    view = topic_of(seen.topic, seen.moving, seen.starts, seen.ends)
    return Screen("topic.html", name, view, refresh_ms=SIGHT_MS, here="/topics")


async def partition(desk: Desk, request: Request) -> Screen:
    """Show the state of each replica of a partition, updated while the page is open.

    Raise NotThere if there is no such partition.
    """
    name: str = request.path_params["topic"]
    index: int = request.path_params["partition"]
    where = TopicPartition(name, index)
    found = await desk.link.shared(REPLICAS_MS, asking.partition, where)
    if found is None:
        raise NotThere(f"The cluster has no partition {index} of a topic {name}.")
    view = partition_of(where, *found, desk.ends.get(where))
    desk.remember(where, view.ends)
    title = f"{name}-{index}"
    return Screen("partition.html", title, view, refresh_ms=REPLICAS_MS, here="/topics")


async def groups(desk: Desk, request: Request) -> Screen:
    """List one page of the groups, with their lag."""
    every = await desk.link.shared(GROUPS_MS, Admin.list_groups)
    page = groups_page(every, request.query_params.get("q", ""), page_number(request))
    names = tuple(one.group_id for one in page.rows)
    view = groups_of(page, await desk.link.shared(GROUPS_MS, asking.lags, names))
    return Screen("groups.html", "Groups", view, refresh_ms=GROUPS_MS, here="/groups")


async def group(desk: Desk, request: Request) -> Screen:
    """Show one group: partitions, lag, members. Raise NotThere if there is no such group."""
    group_id: str = request.path_params["group"]
    found, lags = await desk.link.shared(GROUP_MS, asking.group_with_lags, group_id)
    if found is None:
        raise NotThere(f"The cluster has no group {group_id}.")
    view = group_of(found, lags)
    return Screen("group.html", group_id, view, refresh_ms=GROUP_MS, here="/groups")


async def transactions(desk: Desk, request: Request) -> Screen:
    """List transactional ids, and the open transactions that hold readers back."""
    sight = await desk.link.shared(GROUPS_MS, asking.transactions)
    page = transactions_page(sight.listed, request.query_params.get("q", ""), page_number(request))
    pins = pins_of(sight.producers, sight.ends, sight.listed)
    names = tuple(one.transactional_id for one in page.rows)
    described = await desk.link.shared(GROUPS_MS, asking.described_transactions, names)
    view = transactions_of(page, described, pins, desk.link.runtime.wall_ms())
    return Screen(
        "transactions.html", "Transactions", view, refresh_ms=GROUPS_MS, here="/transactions"
    )


async def configs(desk: Desk, request: Request) -> Screen:
    """List the settings of a topic, a broker, or all brokers.

    Raise NotThere if the topic or broker does not exist.
    """
    asked = request.query_params
    brokers = tuple(one.node_id for one in await desk.brokers())
    owner = asked.get("of", "") or f"broker:{brokers[0] if brokers else ''}"
    resource = resource_of(owner)
    if resource.type is ResourceType.BROKER and resource.name and int(resource.name) not in brokers:
        raise NotThere(f"The cluster has no broker {resource.name} in service.")
    entries = await desk.link.shared(GROUPS_MS, asking.configs, resource)
    if entries is None:
        raise NotThere(f"The cluster has no topic {resource.name}.")
    only, query = asked.get("only", "") == "changed", asked.get("q", "")
    rows = config_rows(entries, query, only_changed=only)
    changed = sum(not one.is_default for one in entries.values())
    flags = ("configs", "--describe", "--all", *resource_flags(owner))
    view = ConfigsView(owner, rows, changed, query, only, brokers, flags)
    title = f"Configs of {resource}"
    return Screen("configs.html", title, view, here="/configs")


async def quorum(desk: Desk, request: Request) -> Screen:
    """Show the controllers; raise NotThere if the cluster does not tell about them."""
    found = await desk.link.shared(SIGHT_MS, asking.quorum)
    if found is None:
        raise NotThere("This cluster does not tell about its controllers.")
    view = quorum_of(found)
    return Screen("quorum.html", "Quorum", view, refresh_ms=SIGHT_MS, here="/quorum")


async def elections(desk: Desk, request: Request) -> Screen:
    """Show the changes of leaders and of the active controller that this console has seen."""
    await desk.sight()
    view = desk.elections.view()
    return Screen("elections.html", "Elections", view, refresh_ms=SIGHT_MS, here="/elections")


def page_number(request: Request) -> int:
    """Return the number of the requested page; 1 if the request gives none, or no number."""
    text = request.query_params.get("page", "1")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 1


async def log_dirs(
    desk: Desk, broker_ids: Iterable[int], partitions: tuple[TopicPartition, ...] | None = None
) -> LogDirs:
    """Describe the log directories of brokers; a recent result of another tab is used again.

    The directories list the replicas of `partitions`, or all replicas if that is None.
    """
    asked = tuple(broker_ids)
    return await desk.link.shared(LOG_DIRS_MS, asking.log_dirs, asked, partitions)
