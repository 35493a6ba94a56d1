"""The metadata state machine without log, clock or network: decide, replay, look."""

from collections.abc import Sequence
from typing import Any, TypeVar

from minikafka.controller.metadata import (
    brokers,
    elections,
    partitions,
    reassignments,
    sweeps,
    topics,
)
from minikafka.controller.metadata.configuration import incremental_alter
from minikafka.controller.metadata.decision import UNCLEAN_ELECTION, Cluster, Decision, Defaults
from minikafka.controller.metadata.eligible_leaders import default_min_isr
from minikafka.controller.metadata.longest_logs import LongestLogs
from minikafka.protocol.control import messages as m
from minikafka.protocol.control.image import BrokerRegistration, MetadataImage, PartitionState
from minikafka.protocol.control.records import (
    BROKER,
    ELIGIBLE_LEADERS,
    METADATA_VERSION,
    SUPPORTED_FEATURES,
    TOPIC,
    ClusterRecord,
    FeatureRecord,
    MetadataRecord,
)
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from minikafka.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from minikafka.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from minikafka.protocol.messages.delete_topics import DeleteTopicsRequest
from minikafka.protocol.messages.elect_leaders import (
    ElectionType,
    ElectLeadersRequest,
    TopicPartitions,
)
from minikafka.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from minikafka.protocol.messages.unregister_broker import UnregisterBrokerRequest

A = TypeVar("A")


def uuid(*parts: int) -> bytes:
    """16 bytes that are easy to tell apart."""
    return bytes(part % 256 for part in parts).ljust(16, b"\0")


class Machine:
    """One cluster, and all records that its decisions have made."""

    def __init__(
        self, brokers_up: int = 0, *, unclean: bool = False, elr: bool = False, min_isr: int = 1
    ) -> None:
        """`elr` says whether the cluster has eligible leader replicas, as new clusters have."""
        settings = {
            UNCLEAN_ELECTION: "true" if unclean else "false",
            "min.insync.replicas": str(min_isr),
        }
        self.cluster = Cluster(MetadataImage(), Defaults(topic_settings=settings))
        self.now_ms = 0
        self.logs = LongestLogs()
        self.ends: dict[int, tuple[int, int]] = {}
        """Last epoch and log end offset of each broker's replicas; (0, 0) unless told otherwise."""
        self.are_reporting = True
        """True if brokers report the log ends of leaderless partitions at once."""
        self.log: list[MetadataRecord] = []
        self.live: dict[int, bool] = {}
        self.shutdown_offsets: dict[int, int] = {}
        self._ids = 0
        first: list[MetadataRecord] = [ClusterRecord("cluster"), FeatureRecord(METADATA_VERSION, 1)]
        self.carry_out(Decision(None, first))
        if elr:
            self.carry_out(Decision(None, [FeatureRecord(ELIGIBLE_LEADERS, 1)]))
            self.carry_out(Decision(None, default_min_isr(self.cluster)))
        for broker_id in range(1, brokers_up + 1):
            self.come_up(broker_id)

    @property
    def image(self) -> MetadataImage:
        return self.cluster.image

    def carry_out(self, decision: Decision[A]) -> A:
        for record in decision.records:
            self.image.apply(record, len(self.log))
            self.log.append(record)
        self.logs.on_changed(self.image, (key for key, _ in self.image.partitions()), self.now_ms)
        if self.are_reporting:
            self.report(*sorted(self.image.brokers))
        return decision.answer

    def report(self, *broker_ids: int) -> None:
        """Brokers that are alive tell how far their logs reach; leaders are elected from it."""
        self.report_to(*broker_ids)
        self.elect_longest()

    def report_to(self, *broker_ids: int, high_watermark: int = -1) -> None:
        """Report log ends without carrying out the elections that follow."""
        electing = [(key, state) for key, state in self.image.partitions() if state.electing]
        for broker_id in broker_ids if electing else ():
            broker = self.broker(broker_id)
            ends = tuple(
                m.LogEnd(
                    *key, state.leader_epoch, *self.ends.get(broker_id, (0, 0)), high_watermark
                )
                for key, state in electing
                if broker_id in state.replicas and broker_id not in state.offline
            )
            if broker.is_active and ends:
                request = m.ReportLogEnds(broker_id, broker.broker_epoch, ends)
                self.logs.on_reported(self.image, request)

    def elect_longest(self) -> None:
        winners = self.logs.decided(self.image, self.now_ms)
        longest = {key: winner.broker_id for key, winner in winners.items()}
        if longest:
            self.carry_out(elections.elect_longest(self.cluster, longest))

    def elect(
        self, election: ElectionType, *named: tuple[str, int], everywhere: bool = False
    ) -> dict[tuple[str, int], ErrorCode]:
        """ElectLeaders: the error of each partition in the answer."""
        partitions = [TopicPartitions(topic=name, partitions=[index]) for name, index in named]
        request = ElectLeadersRequest(
            election_type=election, topic_partitions=None if everywhere else partitions
        )
        answer = self.carry_out(elections.elect_leaders(self.cluster, request))
        return {
            (topic.topic, each.partition_id): ErrorCode(each.error_code)
            for topic in answer.replica_election_results
            for each in topic.partition_result
        }

    def reassign(
        self, named: tuple[str, int], replicas: list[int] | None, *, keeps_count: bool = False
    ) -> ErrorCode:
        """AlterPartitionReassignments of one partition: its error."""
        partition = ReassignablePartition(partition_index=named[1], replicas=replicas)
        request = AlterPartitionReassignmentsRequest(
            allow_replication_factor_change=not keeps_count,
            topics=[ReassignableTopic(name=named[0], partitions=[partition])],
        )
        answer = self.carry_out(reassignments.alter_reassignments(self.cluster, request))
        return ErrorCode(answer.responses[0].partitions[0].error_code)

    def lose_directory(self, broker_id: int, *named: tuple[str, int]) -> m.Noted:
        """A directory of the broker failed: these replicas are gone until it restarts."""
        replicas = tuple(m.LostReplica(self.image.topic_ids[name], index) for name, index in named)
        epoch = self.broker(broker_id).broker_epoch
        request = m.OfflinePartitions(broker_id, epoch, replicas)
        return self.carry_out(sweeps.lost_replicas(self.cluster, request))

    def broker(self, broker_id: int) -> BrokerRegistration:
        return self.image.brokers[broker_id]

    # Brokers.

    def register(
        self,
        broker_id: int,
        *,
        incarnation: int = 1,
        directories: Sequence[int] = (0,),
        rack: str | None = None,
        clean: bool = False,
        **other: Any,
    ) -> m.BrokerRegistered:
        old = self.image.brokers.get(broker_id)
        fields = {
            "endpoints": (m.Endpoint("PLAINTEXT", f"host{broker_id}", 9092),),
            "features": SUPPORTED_FEATURES,
            "previous_broker_epoch": old.broker_epoch if clean and old is not None else -1,
            **other,
        }
        request = m.RegisterBroker(
            broker_id=broker_id,
            incarnation_id=uuid(broker_id, incarnation),
            directory_ids=tuple(uuid(broker_id, 100 + each) for each in directories),
            rack=rack,
            **fields,
        )
        is_live = self.live.get(broker_id, False)
        answer = self.carry_out(brokers.register(self.cluster, request, has_live_lease=is_live))
        if not answer.error:
            self.live[broker_id] = True
        return answer

    def unregister(self, broker_id: int) -> ErrorCode:
        """UnregisterBroker: its error."""
        request = UnregisterBrokerRequest(broker_id=broker_id)
        answer = self.carry_out(brokers.unregister(self.cluster, request))
        return ErrorCode(answer.error_code)

    def beat(self, broker_id: int, *, epoch: int | None = None, **wants: Any) -> m.HeartbeatAnswer:
        wish = {"want_fence": False, "want_shutdown": False, "metadata_offset": 1 << 40, **wants}
        applied, may_wait = wish.pop("applied_by_others", None), wish.pop("may_wait", False)
        request = m.BrokerHeartbeat(
            broker_id=broker_id,
            broker_epoch=self.broker(broker_id).broker_epoch if epoch is None else epoch,
            **wish,
        )
        shutdown_offset = self.shutdown_offsets.get(broker_id, -1)
        context = brokers.HeartbeatContext(shutdown_offset, applied, may_wait)
        decision = brokers.heartbeat(self.cluster, request, context)
        answer = self.carry_out(decision)
        if self.broker(broker_id).in_controlled_shutdown and decision.records:
            self.shutdown_offsets[broker_id] = len(self.log) - 1
        return answer

    def come_up(self, broker_id: int, **how: Any) -> None:
        answer = self.register(broker_id, **how)
        assert answer.error == 0, answer
        assert not self.beat(broker_id).is_fenced

    def fence(self, *broker_ids: int) -> None:
        """Their leases ran out."""
        for broker_id in broker_ids:
            self.live[broker_id] = False
            epoch = self.broker(broker_id).broker_epoch
            self.carry_out(brokers.fence_expired(self.cluster, broker_id, epoch))

    # Topics.

    def _new_id(self, name: str) -> bytes:
        self._ids += 1
        return uuid(0xEE, self._ids)

    def create(
        self,
        name: str,
        partitions: int = -1,
        factor: int = -1,
        *,
        replicas: Sequence[Sequence[int]] = (),
        configs: dict[str, str | None] | None = None,
        validate_only: bool = False,
    ) -> Any:
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=factor,
            assignments=[
                CreatableReplicaAssignment(partition_index=index, broker_ids=list(each))
                for index, each in enumerate(replicas)
            ],
            configs=[
                CreatableTopicConfig(name=key, value=value)
                for key, value in (configs or {}).items()
            ],
        )
        return self.create_many([topic], validate_only=validate_only).topics[0]

    def create_many(self, wanted: list[CreatableTopic], *, validate_only: bool = False) -> Any:
        request = CreateTopicsRequest(topics=wanted, validate_only=validate_only)
        return self.carry_out(topics.create_topics(self.cluster, request, self._new_id))

    def create_as_broker(self, name: str) -> None:
        """Create a topic of one partition as a broker does in its own name."""
        wanted = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
        wanted.configs = [CreatableTopicConfig(name="max.message.bytes", value=str(1 << 20))]
        request = CreateTopicsRequest(topics=[wanted])
        made = topics.create_topics(self.cluster, request, self._new_id, by_broker=True)
        assert self.carry_out(made).topics[0].error_code == 0

    def delete(self, *names: str) -> list[int]:
        request = DeleteTopicsRequest(topic_names=list(names), timeout_ms=0)
        answer = self.carry_out(topics.delete_topics(self.cluster, request))
        return [each.error_code for each in answer.responses]

    def grow(self, name: str, count: int, assignments: Any = None) -> Any:
        wanted = CreatePartitionsTopic(name=name, count=count, assignments=assignments)
        request = CreatePartitionsRequest(topics=[wanted], timeout_ms=0)
        return self.carry_out(topics.create_partitions(self.cluster, request)).results[0]

    def state(self, name: str, index: int = 0) -> PartitionState:
        topic = self.image.topic(name)
        assert topic is not None
        return topic.partitions[index]

    def states(self, name: str) -> list[PartitionState]:
        topic = self.image.topic(name)
        assert topic is not None
        return list(topic.partitions.values())

    # Leaders.

    def alter(
        self,
        name: str,
        isr: Sequence[int],
        *,
        sender: int | None = None,
        epochs: dict[int, int] | None = None,
        **other: Any,
    ) -> m.ChangedPartition:
        """What the leader of partition 0 proposes, with the newest epochs unless told otherwise."""
        topic_id = other.pop("topic_id", None) or self.image.topic_ids[name]
        state = self.state(name)
        sender = state.leader if sender is None else sender
        fields = {
            "partition": 0,
            "leader_epoch": state.leader_epoch,
            "partition_epoch": state.partition_epoch,
            "recovering": False,
            **other,
        }
        known = {each: self.broker(each).broker_epoch for each in isr if each in self.image.brokers}
        known |= epochs or {}
        change = m.PartitionChange(
            topic_id=topic_id,
            isr=tuple(m.IsrMember(each, known.get(each, -1)) for each in isr),
            **fields,
        )
        request = m.AlterPartitions(sender, self.broker(sender).broker_epoch, (change,))
        answer = self.carry_out(partitions.alter_partitions(self.cluster, request))
        assert answer.error == 0
        return answer.partitions[0]

    # Configuration.

    def configure(
        self,
        name: str,
        *,
        kind: int = TOPIC,
        operation: int = 0,
        validate_only: bool = False,
        **keys: str | None,
    ) -> Any:
        """Keys with `_` for `.`."""
        changes = [
            AlterableConfig(name=key.replace("_", "."), config_operation=operation, value=value)
            for key, value in keys.items()
        ]
        resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=changes)
        request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
        return self.carry_out(incremental_alter(self.cluster, request)).responses[0]

    def configure_all_brokers(self, **keys: Any) -> Any:
        return self.configure("", kind=BROKER, **keys)


def error(answer: Any) -> ErrorCode:
    """The error code of any answer."""
    return ErrorCode(answer.error if hasattr(answer, "error") else answer.error_code)
