"""A leader of a partition with replicas 1, 2 and 3 and min ISR 2, and the events that it gets."""

from dataclasses import replace
from typing import Any

from minikafka.broker.replica.leader import Effects, LeaderReplica, ProposeIsr
from minikafka.broker.replica.state import KnownBrokers, PartitionMetadata
from minikafka.protocol.control.image import PartitionState
from minikafka.protocol.errors import ErrorCode
from minikafka.runtime.config import from_mapping
from minikafka.storage.topic_config import TopicConfig

from ..controller.machine import Machine
from .model import LAG_MAX_MS

ME, B, C = 1, 2, 3
EPOCHS = {ME: 11, B: 12, C: 13}
MIN_ISR_2 = from_mapping(TopicConfig, {"min.insync.replicas": "2"})


def record(*isr: int, **others: Any) -> PartitionMetadata:
    """Return metadata in which broker 1 leads epoch 1 with this ISR, by default all three."""
    everybody = (ME, B, C)
    return replace(PartitionMetadata(ME, 1, 1, everybody, isr or everybody, min_isr=2), **others)


def leading(*isr: int, log_end: int = 0, high_watermark: int = 0, **others: Any) -> LeaderReplica:
    """Return the leader state of broker 1, which has just become the leader."""
    leader = LeaderReplica(ME, KnownBrokers(dict(EPOCHS), dict(EPOCHS)), LAG_MAX_MS, high_watermark)
    leader.on_metadata(record(*isr, **others), log_end, now_ms=0)
    return leader


def fetch(leader: LeaderReplica, broker: int, offset: int, now_ms: int = 1) -> Effects:
    """Send a valid fetch of the broker's present incarnation."""
    return leader.on_follower_fetched(broker, offset, now_ms, EPOCHS[broker])


def proposing(*isr: int, fetched: tuple[int, ...] = (), partition_epoch: int = 1) -> ProposeIsr:
    """Return the ISR proposal of broker 1, with the broker epochs of itself and of `fetched`."""
    members = tuple((b, EPOCHS[b] if b == ME or b in fetched else -1) for b in isr)
    return ProposeIsr(members, leader_epoch=1, partition_epoch=partition_epoch)


def members(proposal: ProposeIsr | None) -> tuple[int, ...]:
    """Return the brokers of the proposed ISR; none if nothing is proposed."""
    return () if proposal is None else tuple(broker for broker, _ in proposal.isr)


class Ruled:
    """A leader and the product's controller decisions; the test passes messages between them."""

    def __init__(self, *isr: int, elr: bool = False) -> None:
        self.controller = Machine(brokers_up=3, elr=elr, min_isr=2)
        self.controller.create("t", replicas=[(1, 2, 3)])
        if isr:
            self.controller.alter("t", isr)
        self.brokers = KnownBrokers()
        self.now_ms = 1
        self.leader = LeaderReplica(1, self.brokers, LAG_MAX_MS, 0)
        self.publish()

    @property
    def state(self) -> PartitionState:
        return self.controller.state("t")

    def publish(self) -> Effects:
        """The newest metadata reaches the leader."""
        brokers = self.controller.image.brokers.values()
        self.brokers.epochs = {each.broker_id: each.broker_epoch for each in brokers}
        self.brokers.eligible = {
            each.broker_id: each.broker_epoch for each in brokers if each.is_active
        }
        metadata = PartitionMetadata.of(self.state, MIN_ISR_2)
        end = self.leader.log_end_offset
        return self.leader.on_metadata(metadata, end, self.now_ms)

    def fetch(self, broker: int, offset: int, epoch: int | None = None) -> Effects:
        self.now_ms += 1
        known = self.controller.broker(broker).broker_epoch
        epoch = known if epoch is None else epoch
        return self.leader.on_follower_fetched(broker, offset, self.now_ms, epoch)

    def propose(self, proposal: ProposeIsr, sender: int = 1) -> ErrorCode:
        """Pass a proposal to the controller; the test loses or delivers its answer."""
        answer = self.controller.alter(
            "t",
            [broker for broker, _ in proposal.isr],
            sender=sender,
            epochs=dict(proposal.isr),
            leader_epoch=proposal.leader_epoch,
            partition_epoch=proposal.partition_epoch,
        )
        return ErrorCode(answer.error)

    def refuse(self, proposal: ProposeIsr, error: ErrorCode) -> Effects:
        """The controller's refusal reaches the leader."""
        self.now_ms += 1
        return self.leader.on_proposal_failed(proposal, error, self.now_ms)
