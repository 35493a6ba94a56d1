"""Collects the facts that a diagnosis needs, with time limits, and changes nothing.

The requests are independent: one that fails or times out is recorded as `Skipped`, and the others
continue.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from ...client.admin.admin import Admin
from ...client.admin.config_types import ConfigEntry, ConfigResource
from ...client.admin.log_types import LogDirectory
from ...client.admin.replica_types import ReplicaState
from ...client.admin.transaction_types import TransactionDescription, TransactionListing
from ...client.cli.reassignment import FOLLOWER_REPLICAS, LEADER_REPLICAS, THROTTLE_RATES
from ...client.config import AdminConfig
from ...client.errors import AdminError
from ...client.net.address import Address
from ...protocol.errors import ApiError, ErrorCode
from ...protocol.types import TopicPartition
from ...runtime.errors import MinikafkaError
from ...runtime.runtime import Runtime
from ...security.control_proof import open_proofs
from .facts import (
    Broker,
    Clock,
    Controllers,
    Examined,
    Partition,
    Probe,
    Scrape,
    Transaction,
)
from .groups import GroupLooks
from .probing import probe, probe_controllers
from .scraping import METRICS_KEY, metrics_address, scrape
from .steps import Steps, all_of

STEP_MS: Final = 5_000
"""The time limit of each question, in ms."""
DESCRIBED_MAX: Final = 20_000
"""The most partitions whose leaders are asked about open transactions."""
TROUBLED_MAX: Final = 2_000
"""The most partitions without a leader, or not fully in sync, whose every replica is asked."""
CONFIGS_AT_ONCE: Final = 500
"""Topics whose settings one request asks for."""
OPEN_LONG_MS: Final = 5 * 60_000
"""The age in ms at which an open transaction is reported."""
MIN_ISR: Final = "min.insync.replicas"


async def examine(
    runtime: Runtime,
    config: AdminConfig,
    controllers: Sequence[Address] = (),
    *,
    step_ms: int = STEP_MS,
) -> Examined:
    """Examine the cluster that `config` leads to, and the controllers at these addresses."""
    steps = Steps(step_ms)
    addresses = [Address.parse(server) for server in config.bootstrap_servers]
    security = config.security.steps(runtime)
    doors = await all_of(
        probe(runtime, one, timeout_ms=step_ms, security=security) for one in addresses
    )
    keys = open_proofs(runtime, config.control).shown
    quorum = await probe_controllers(runtime, tuple(controllers), timeout_ms=step_ms, keys=keys)
    found = Examined(tuple(doors), controllers=quorum)
    entry = found.entry
    if entry is None:
        return found
    settings = {
        "bootstrap_servers": [str(entry.address)],
        "client_id": config.client_id,
        "default_api_timeout_ms": step_ms,
        "request_timeout_ms": step_ms,
        "socket_connection_setup_timeout_ms": step_ms,
        "enable_metrics_push": False,
        **config.security.as_arguments(),
    }
    admin = Admin(runtime=runtime, **settings)
    try:
        await admin.start()
        found = await _Examination(runtime, admin, steps).whole(found, entry)
    except MinikafkaError as error:
        steps.skip("the cluster", str(error))
    finally:
        await admin.close()
    return replace(found, skipped=tuple(steps.skipped))


class _Examination:
    """One examination by one admin."""

    def __init__(self, runtime: Runtime, admin: Admin, steps: Steps) -> None:
        self._runtime = runtime
        self._admin = admin
        self._steps = steps

    async def whole(self, found: Examined, entry: Probe) -> Examined:
        """Collect all facts; `entry` is the bootstrap address that answered."""
        brokers = await self._brokers(entry)
        if not any(one.is_reachable for one in brokers.values()):
            # Every other question goes to an address that a broker advertises.
            return replace(found, brokers=brokers)
        groups = GroupLooks(self._runtime, self._admin, self._steps)
        await groups.first()
        partitions, moving, throttled = await self._partitions(brokers)
        transactions = await self._transactions(partitions)
        controllers = await self._controllers(found.controllers)
        return replace(
            found,
            brokers=brokers,
            partitions=partitions,
            moving=moving,
            throttled_topics=throttled,
            transactions=transactions,
            controllers=controllers,
            stuck_groups=await groups.second(),
        )

    # -- brokers

    async def _brokers(self, entry: Probe) -> dict[int, Broker]:
        listed = {
            each.node_id: Broker(each.node_id, each.address) for each in sorted(entry.brokers)
        }
        cluster = await self._steps.take(
            "brokers", self._admin.describe_cluster(include_fenced=True), None
        )
        for each in cluster.brokers if cluster is not None else ():
            known = listed.get(each.node_id)
            address = Address(each.host, each.port) if known is None else known.address
            listed[each.node_id] = Broker(each.node_id, address, each.rack, each.is_fenced)
        found = await all_of(self._broker(one) for _, one in sorted(listed.items()))
        return {one.node_id: one for one in found}

    async def _broker(self, broker: Broker) -> Broker:
        if broker.is_fenced:
            return broker
        limit_ms = self._steps.limit_ms
        met = await probe(
            self._runtime,
            broker.address,
            timeout_ms=limit_ms,
            security=self._admin.config.security.steps(self._runtime),
            expected=broker.node_id,
        )
        broker = replace(broker, probe=met)
        if not met.is_good or met.denial is not None:
            return broker
        node_id = broker.node_id
        none: dict[int, dict[str, LogDirectory]] = {}
        configs: dict[str, ConfigEntry] = {}
        directories, configs = await asyncio.gather(
            self._steps.take(
                f"log directories of broker {node_id}",
                self._admin.describe_log_dirs([node_id]),
                none,
            ),
            self._steps.take(f"settings of broker {node_id}", self._settings(node_id), configs),
        )
        throttles = tuple(key for key in THROTTLE_RATES if _is_set(configs.get(key)))
        return replace(
            broker,
            directories=directories.get(node_id, {}),
            throttles=throttles,
            scrape=await self._scrape(broker, configs.get(METRICS_KEY)),
        )

    async def _settings(self, node_id: int) -> dict[str, ConfigEntry]:
        resource = ConfigResource.broker(node_id)
        keys = [*THROTTLE_RATES, METRICS_KEY]
        return (await self._admin.describe_configs([resource], keys=keys))[resource]

    async def _scrape(self, broker: Broker, listener: ConfigEntry | None) -> Scrape | None:
        if listener is None or not listener.value:
            return None
        address = metrics_address(listener.value, broker.address.host)
        if address is None:
            return None
        what = f"metrics of broker {broker.node_id} at {address}"
        return await self._steps.take(what, scrape(self._runtime, address), None)

    # -- partitions

    async def _partitions(
        self, brokers: dict[int, Broker]
    ) -> tuple[dict[TopicPartition, Partition], tuple[TopicPartition, ...], tuple[str, ...]]:
        """Return the partitions, those that are being moved, and the topics with a throttle."""
        topics = dict(await self._steps.take("topics", self._admin.describe_topics(), {}))
        leaderless = [
            name for name, one in topics.items() if any(p.leader_id < 0 for p in one.partitions)
        ]
        if leaderless:
            # A topic that is asked for by its name is told with its eligible leader replicas.
            question = self._admin.describe_topics(leaderless[:TROUBLED_MAX])
            topics.update(await self._steps.take("eligible leaders", question, {}))
        moving = await self._steps.take(
            "reassignments", self._admin.list_partition_reassignments(), {}
        )
        configs = await self._topic_configs(list(topics))
        partitions: dict[TopicPartition, Partition] = {}
        for name, topic in topics.items():
            entry = configs.get(name, {}).get(MIN_ISR)
            min_isr = 1 if entry is None or entry.value is None else int(entry.value)
            for one in topic.partitions:
                where = TopicPartition(name, one.partition)
                adding = moving[where].adding if where in moving else ()
                replicas = tuple(each for each in one.replicas if each not in adding)
                eligible = one.eligible_leader_replicas or one.last_known_elr or ()
                partitions[where] = Partition(replicas, one.isr, one.leader_id, min_isr, eligible)
        throttled = tuple(
            name
            for name, entries in configs.items()
            if any(_is_set(entries.get(key)) for key in (LEADER_REPLICAS, FOLLOWER_REPLICAS))
        )
        await self._describe(partitions, brokers)
        return partitions, tuple(moving), throttled

    async def _topic_configs(self, names: list[str]) -> dict[str, dict[str, ConfigEntry]]:
        keys = [MIN_ISR, LEADER_REPLICAS, FOLLOWER_REPLICAS]
        found: dict[str, dict[str, ConfigEntry]] = {}
        for at in range(0, len(names), CONFIGS_AT_ONCE):
            part = [ConfigResource.topic(name) for name in names[at : at + CONFIGS_AT_ONCE]]
            question = self._admin.describe_configs(part, keys=keys)
            described = await self._steps.take("settings of topics", question, {})
            if not described:
                break
            found.update({resource.name: entries for resource, entries in described.items()})
        return found

    async def _describe(
        self, partitions: dict[TopicPartition, Partition], brokers: dict[int, Broker]
    ) -> None:
        """Add each leader's state, and that of every replica of a partition not fully in sync."""
        alive = {each: None for each, one in brokers.items() if one.is_reachable}
        questions: dict[TopicPartition, list[int]] = {}
        troubled = 0
        for where, one in partitions.items():
            asked = [one.leader]
            if (one.missing or one.leader < 0) and troubled < TROUBLED_MAX:
                troubled += 1
                asked = list(one.replicas)
            if len(questions) < DESCRIBED_MAX:
                questions[where] = [each for each in asked if each in alive]
        if len(questions) < len(partitions):
            why = f"only {len(questions)} of {len(partitions)} partitions were asked for"
            self._steps.skip("open transactions", why)
        states = await self._steps.take(
            "replicas",
            self._admin.describe_replicas(questions, timeout_ms=self._steps.most_ms),
            {},
        )
        for where, found in states.items():
            partitions[where] = replace(partitions[where], states=found)

    async def _transactions(
        self, partitions: dict[TopicPartition, Partition]
    ) -> tuple[Transaction, ...]:
        """Return the transactions that began long ago and hold back a last stable offset."""
        now_ms = self._runtime.wall_ms()
        old: list[tuple[TopicPartition, int, int, int]] = []
        for where, one in partitions.items():
            state = one.states.get(one.leader)
            if not isinstance(state, ReplicaState) or not state.open_transactions:
                continue
            first = state.open_transactions[0]
            age_ms = 0 if first.started_ms is None else now_ms - first.started_ms
            if age_ms >= OPEN_LONG_MS:
                old.append((where, first.producer_id, first.first_offset, age_ms))
        if not old:
            return ()
        question = self._admin.list_transactions(
            producer_ids=list(dict.fromkeys(producer_id for _, producer_id, _, _ in old))
        )
        listed = await self._steps.take("transactions", question, None)
        if listed is None:
            return ()
        described = await all_of(self._described(each) for each in listed)
        names = {
            (where, one.producer_id): one.transactional_id
            for one in described
            if one is not None
            for where in one.partitions
        }
        return tuple(
            Transaction(where, producer_id, offset, age_ms, names.get((where, producer_id)))
            for where, producer_id, offset, age_ms in old
        )

    async def _described(self, listed: TransactionListing) -> TransactionDescription | None:
        """Describe a transactional id; None if it has expired since, or on failure."""
        name = listed.transactional_id
        try:
            async with asyncio.timeout(self._steps.limit_ms / 1000):
                return (await self._admin.describe_transactions([name]))[name]
        except AdminError:
            return None
        except (MinikafkaError, TimeoutError) as error:
            self._steps.skip(f"transaction {name}", str(error) or "no answer in time")
            return None

    # -- controllers

    async def _controllers(self, known: Controllers) -> Controllers:
        """Describe the quorum through a broker, and compare its leader's clock with ours."""
        before_ms = self._runtime.wall_ms()
        try:
            async with asyncio.timeout(self._steps.limit_ms / 1000):
                quorum = await self._admin.describe_metadata_quorum()
        except (MinikafkaError, TimeoutError) as error:
            if isinstance(error, ApiError) and error.code is ErrorCode.UNSUPPORTED_VERSION:
                self._steps.skip("controllers", str(error), is_supported=False)
            if known.quorum is not None:
                return known
            return replace(known, why=str(error) or f"no answer within {self._steps.limit_ms} ms")
        after_ms = self._runtime.wall_ms()
        clock = None
        if quorum.now_ms is not None:
            middle_ms = (before_ms + after_ms) // 2
            ahead_ms = quorum.now_ms - middle_ms
            clock = Clock(ahead_ms, (after_ms - before_ms) // 2 + 1)
        return replace(known, quorum=quorum, clock=clock)


def _is_set(entry: ConfigEntry | None) -> bool:
    return entry is not None and not entry.is_default and bool(entry.value)
