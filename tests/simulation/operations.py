"""An operator's changes to the running cluster, made by the product's own admin client.

An operation may fail or have an unknown outcome; that is no violation.
"""

import asyncio
from collections.abc import Awaitable, Callable

from minikafka import (
    Acl,
    AclFilter,
    AclOperation,
    AclPattern,
    AclPermission,
    AclResource,
    QuotaEntity,
)
from minikafka.aio import Admin, ConfigChange, ConfigResource, TopicPartition
from minikafka.client.admin.credential_types import ScramChange
from minikafka.client.admin.log_types import TopicPartitionReplica
from minikafka.protocol.acls import ANY
from minikafka.protocol.messages.describe_configs import ResourceType
from minikafka.protocol.messages.elect_leaders import ElectionType
from minikafka.protocol.messages.incremental_alter_configs import ConfigOperation
from minikafka.protocol.messages.list_offsets import LATEST_TIMESTAMP
from minikafka.protocol.quotas import QUOTA_KEYS
from minikafka.runtime.errors import MinikafkaError
from minikafka.security.sasl.scram import BY_NAME

from .cluster import Cluster
from .coverage import Coverage
from .shape import Shape, TopicShape
from .workload import Workload, new_topic
from .world import SimRuntime, World

ASKING_MS = 6000
THROTTLED_RATES = ("50000", "200000")
"""Throttles in bytes per second for replicas that catch up: above the write rate, so they do."""
MOST_PARTITIONS = 5
GUARDED = ("guarded", "guarded-1", "guarded-2")
"""The names in entries, which are no topics of the workload and no prefixes of them."""
STRANGERS = (
    QuotaEntity(user="nobody"),
    QuotaEntity(user="nobody", client_id=""),
    QuotaEntity(client_id="nothing"),
    QuotaEntity(ip="192.0.2.1"),
)
"""The entities whose quotas change: no client of the workload is one of them."""
Operation = Callable[[Admin], Awaitable[None]]


class Operator:
    """Carries out random operations of the shape until it is stopped."""

    def __init__(
        self, world: World, cluster: Cluster, shape: Shape, workload: Workload, coverage: Coverage
    ) -> None:
        self.world = world
        self.cluster = cluster
        self.shape = shape
        self.workload = workload
        self.coverage = coverage
        self.rng = world.rng("operations")
        self.stopping = False
        self._moving: TopicPartition | None = None
        self._known: dict[str, Operation] = {
            "create-topic": self._create,
            "delete-topic": self._delete,
            "recreate-topic": self._recreate,
            "add-partitions": self._add_partitions,
            "reassign": self._reassign,
            "cancel-reassignment": self._cancel,
            "elect-preferred": self._elect_preferred,
            "elect-uncleanly": self._elect_uncleanly,
            "change-config": self._change_config,
            "change-credential": self._change_credential,
            "delete-records": self._delete_records,
            "throttle": self._throttle,
            "move-replica": self._move,
            "change-acls": self._change_acls,
            "change-quotas": self._change_quotas,
        }
        self._extra_topics = 0

    def start(self) -> None:
        if self.shape.operations:
            self.world.start(self.world.add_host("operator"), "operator", self._run)

    async def _run(self, runtime: SimRuntime) -> None:
        bootstrap = self.cluster.bootstrap
        while not self.stopping:
            await asyncio.sleep(3 * self.rng.random())
            name = self.rng.choice(self.shape.operations)
            self.world.trace.emit("operator", name)
            try:
                async with Admin(
                    bootstrap_servers=bootstrap,
                    runtime=runtime,
                    default_api_timeout_ms=ASKING_MS,
                    request_timeout_ms=2000,
                ) as admin:
                    await self._known[name](admin)
            except MinikafkaError as error:
                self.world.trace.emit("operator", "failed", type(error).__name__)
                continue
            self.world.trace.emit("operator", "done", name)

    def _note(self, name: str) -> None:
        self.coverage.note("operation", name)

    def _mortal(self) -> TopicShape | None:
        return next((topic for topic in self.shape.topics if topic.mortal), None)

    def _some_partition(self) -> TopicPartition:
        topic = self.rng.choice(self.workload.lasting)
        return TopicPartition(topic.name, self.rng.randrange(topic.partitions))

    # -- topics -----------------------------------------------------------------------------

    async def _create(self, admin: Admin) -> None:
        if self._extra_topics >= 2:
            return
        self._extra_topics += 1
        shape = TopicShape(f"extra-{self._extra_topics}", 1, 3, 2, group=self.shape.all_group)
        await admin.create_topics([new_topic(shape)])
        self._note("create-topic")

    async def _delete(self, admin: Admin) -> None:
        mortal = self._mortal()
        if mortal is not None:
            await admin.delete_topics([mortal.name])
            self._note("delete-topic")

    async def _recreate(self, admin: Admin) -> None:
        mortal = self._mortal()
        if mortal is not None:
            # With somebody asking for the topic, another broker may be the first to make it.
            await admin.delete_topics([mortal.name])
            await admin.create_topics([new_topic(mortal)])
            self._note("recreate-topic")

    async def _add_partitions(self, admin: Admin) -> None:
        topic = self.rng.choice(self.workload.lasting)
        count = self.workload.partition_counts[topic.name] + 1
        if count <= MOST_PARTITIONS:
            await admin.create_partitions({topic.name: count})
            self.workload.partition_counts[topic.name] = count
            self._note("add-partitions")

    async def _delete_records(self, admin: Admin) -> None:
        topics = [topic for topic in self.workload.lasting if topic.sheds]
        topic = self.rng.choice(topics)
        partition = TopicPartition(topic.name, self.rng.randrange(topic.partitions))
        ends = await admin.list_offsets({partition: LATEST_TIMESTAMP})
        offset = self.rng.randint(0, ends[partition].offset)
        self.workload.on_delete_asked((partition.topic, partition.partition), offset)
        await admin.delete_records({partition: offset})
        self._note("delete-records")

    # -- replicas and leaders ---------------------------------------------------------------

    async def _reassign(self, admin: Admin) -> None:
        partition = self._some_partition()
        (topic,) = [each for each in self.shape.topics if each.name == partition.topic]
        target = self.rng.sample(list(self.cluster.brokers), topic.replication)
        await admin.alter_partition_reassignments({partition: target})
        self._moving = partition
        self._note("reassign")

    async def _cancel(self, admin: Admin) -> None:
        if self._moving is None:
            await self._reassign(admin)
            await asyncio.sleep(0.2 * self.rng.random())
        if self._moving is not None:
            moving, self._moving = self._moving, None
            await admin.alter_partition_reassignments({moving: None})
            self._note("cancel-reassignment")

    async def _move(self, admin: Admin) -> None:
        """Move replicas of a partition to directories of their brokers, to and fro."""
        partition = self._some_partition()
        paths = {
            TopicPartitionReplica(*partition, broker): self.rng.choice(
                daemon.properties["log.dirs"].split(",")
            )
            for broker, daemon in self.cluster.brokers.items()
            if daemon.alive and self.rng.random() < 0.7
        }
        if paths:
            self._note("move-replica")
            await admin.alter_replica_log_dirs(paths)

    async def _elect_preferred(self, admin: Admin) -> None:
        chosen = None if self.rng.random() < 0.5 else [self._some_partition()]
        await admin.elect_leaders(ElectionType.PREFERRED, chosen)
        self._note("elect-preferred")

    async def _elect_uncleanly(self, admin: Admin) -> None:
        topics = [topic for topic in self.workload.lasting if topic.unclean]
        partitions = [
            TopicPartition(topic.name, index)
            for topic in topics
            for index in range(topic.partitions)
        ]
        if partitions:
            await admin.elect_leaders(ElectionType.UNCLEAN, partitions)
            self._note("elect-uncleanly")

    async def _throttle(self, admin: Admin) -> None:
        """Throttle the replication of a topic that is being reassigned, or remove the throttle."""
        topic = self.rng.choice(self.workload.lasting)
        rate = self.rng.choice(THROTTLED_RATES) if self.rng.random() < 0.7 else None
        listed = self.rng.choice(("*", "0:1,0:2,0:3")) if rate else None
        how = ConfigOperation.SET if rate else ConfigOperation.DELETE
        for_all = ConfigResource(ResourceType.BROKER, "")
        for_topic = ConfigResource(ResourceType.TOPIC, topic.name)
        await admin.incremental_alter_configs(
            {
                for_all: [
                    ConfigChange(f"{side}.replication.throttled.rate", rate, how)
                    for side in ("leader", "follower")
                ],
                for_topic: [
                    ConfigChange(f"{side}.replication.throttled.replicas", listed, how)
                    for side in ("leader", "follower")
                ],
            }
        )
        self._note("throttle")

    # -- access control ---------------------------------------------------------------------

    async def _change_acls(self, admin: Admin) -> None:
        """Create entries for topics that nobody uses, or delete some of them."""
        if self.rng.random() < 0.6:
            await admin.create_acls([self._some_acl() for _ in range(self.rng.randint(1, 4))])
        else:
            name, pattern = self.rng.choice(GUARDED), self.rng.choice((ANY, AclPattern.MATCH))
            await admin.delete_acls([AclFilter(ANY, name, pattern, None, None, ANY, ANY)])
        self._note("change-acls")

    def _some_acl(self) -> Acl:
        return Acl(
            resource_type=AclResource.TOPIC,
            resource_name=self.rng.choice(GUARDED),
            pattern_type=self.rng.choice((AclPattern.LITERAL, AclPattern.PREFIXED)),
            principal=self.rng.choice(("User:ANONYMOUS", "User:bob", "User:*")),
            host="*",
            operation=self.rng.choice((AclOperation.ALL, AclOperation.READ, AclOperation.WRITE)),
            permission=self.rng.choice(tuple(AclPermission)),
        )

    async def _change_quotas(self, admin: Admin) -> None:
        """Set quotas of clients that are never there, or remove some, set or not."""
        changes: dict[QuotaEntity, dict[str, float | None]] = {}
        for entity in self.rng.sample(STRANGERS, self.rng.randint(1, 3)):
            (part, *_) = entity.parts
            keys = [key for key, known in QUOTA_KEYS.items() if part in known.entities]
            changes[entity] = {
                key: self.rng.choice((None, 1.0, 2000.0)) for key in keys if self.rng.random() < 0.7
            }
        await admin.alter_client_quotas(changes)
        self._note("change-quotas")

    # -- settings ---------------------------------------------------------------------------

    async def _change_credential(self, admin: Admin) -> None:
        """Set a user's password, or delete it, which is refused if there is none."""
        password = self.rng.choice(("one", "two", None))
        mechanism = self.rng.choice(list(BY_NAME))
        await admin.alter_scram_credentials([ScramChange("alice", mechanism, password)])
        self._note("change-credential")

    async def _change_config(self, admin: Admin) -> None:
        topic = self.rng.choice(self.workload.lasting)
        choices = [
            ("segment.bytes", str(self.rng.choice((3000, 30_000, 1 << 30)))),
            ("index.interval.bytes", str(self.rng.choice((200, 4096)))),
            ("min.insync.replicas", str(max(1, topic.min_isr - self.rng.randrange(2)))),
        ]
        if topic.unclean:
            choices.append(("unclean.leader.election.enable", self.rng.choice(("true", "false"))))
        key, value = self.rng.choice(choices)
        resource = ConfigResource(ResourceType.TOPIC, topic.name)
        await admin.incremental_alter_configs({resource: [ConfigChange(key, value)]})
        self._note("change-config")
