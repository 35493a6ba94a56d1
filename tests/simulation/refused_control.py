"""Bad requests to controllers, from nodes with a false identity or outdated knowledge."""

from dataclasses import replace

from minikafka.protocol.control import messages as m
from minikafka.protocol.control import quorum_messages as q
from minikafka.protocol.control.image import MetadataImage
from minikafka.protocol.errors import ErrorCode

from .cluster import FIRST_CONTROLLER_ID
from .inside import voter_key
from .refusals import TOPIC, Due, Refused, Story, Unsaid

NOBODY = 77
"""An id that no node has."""
ELSEWHERE = b"another-disk-id."
LATE = 1 << 30
"""An epoch higher than any that elections can have reached."""
OLD = ErrorCode.FENCED_LEADER_EPOCH
STRANGE = ErrorCode.INCONSISTENT_VOTER_SET
CLUSTER = ErrorCode.INCONSISTENT_CLUSTER_ID
KEY = ErrorCode.INVALID_VOTER_KEY
INVALID = ErrorCode.INVALID_REGISTRATION
MOVED_ON = (OLD, ErrorCode.INVALID_UPDATE_VERSION, ErrorCode.STALE_BROKER_EPOCH)
"""Errors which mean that the partition or its leader has changed since it was looked up."""


async def quorum(refused: Refused) -> None:
    """Send votes and epochs with a wrong cluster, voter, disk or epoch."""
    asked = refused.rng.choice(list(refused.cluster.controllers))
    other = FIRST_CONTROLLER_ID + (asked - FIRST_CONTROLLER_ID + 1) % len(
        refused.cluster.controllers
    )
    me, peer = q.VoterKey(asked), voter_key(refused.cluster.controllers[other].process, other)
    vote = q.Vote(None, 0, peer, me, 0, 0, True)
    begun = q.BeginQuorumEpoch(None, 0, peer, me)
    ended = q.EndQuorumEpoch(None, 0, peer, ())
    fetch = q.FetchQuorumLog(None, 0, peer, 0, 0, 0, 0, 0)
    # One that is down cannot tell on which disk it is known, one whose disk is not may be on any.
    known = (OLD, KEY)
    stranger = q.VoterKey(NOBODY)
    pairs: list[tuple[m.Request[object], Due]] = [
        (replace(vote, cluster_id="another"), CLUSTER),
        (replace(vote, candidate=stranger), STRANGE),
        (replace(vote, candidate=q.VoterKey(other, ELSEWHERE)), known),
        (replace(vote, voter=stranger), (STRANGE, KEY)),
        (replace(vote, voter=q.VoterKey(asked, ELSEWHERE)), KEY),
        (vote, known),
        (replace(vote, epoch=LATE), (ErrorCode.INVALID_REQUEST, KEY)),
        (replace(begun, cluster_id="another"), CLUSTER),
        (replace(begun, leader=stranger), STRANGE),
        (replace(begun, voter=stranger), (STRANGE, KEY)),
        (begun, known),
        (replace(ended, cluster_id="another"), CLUSTER),
        (replace(ended, leader=stranger), STRANGE),
        (ended, known),
        (replace(fetch, cluster_id="another"), CLUSTER),
        (fetch, OLD),
        (replace(fetch, epoch=LATE), ErrorCode.UNKNOWN_LEADER_EPOCH),
    ]
    hello = refused.hello(NOBODY, m.ROLE_CONTROLLER)
    for request, due in pairs:
        await refused.due_of_controller(asked, hello, request, due)
    await refused.due_of_controller(
        asked, refused.hello(NOBODY, m.ROLE_BROKER), vote, ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    )


async def brokers(refused: Refused) -> None:
    """Register brokers that cannot be registered, and send requests of unregistered ones."""
    active = await refused.active_controller()
    hello = refused.hello(NOBODY, m.ROLE_BROKER)
    place = m.Endpoint("PLAINTEXT", "broker-77", 9092)
    fine = m.RegisterBroker(NOBODY, bytes(16), (ELSEWHERE,), (place,), None, {})
    taken = next(iter(_image(refused).brokers.values())).directory_ids
    unknown = (ErrorCode.BROKER_ID_NOT_REGISTERED, ErrorCode.STALE_BROKER_EPOCH)
    pairs: list[tuple[m.Request[object], Due]] = [
        (replace(fine, directory_ids=()), INVALID),
        (replace(fine, directory_ids=(b"short",)), INVALID),
        (replace(fine, directory_ids=taken), INVALID),
        (replace(fine, endpoints=()), INVALID),
        (replace(fine, endpoints=(place, place)), INVALID),
        (replace(fine, endpoints=(replace(place, host=""),)), INVALID),
        (replace(fine, rack="x" * 40_000), INVALID),
        (fine, ErrorCode.UNSUPPORTED_VERSION),
        (m.BrokerHeartbeat(NOBODY, 1, 0, False, False), unknown),
        (m.AlterPartitions(NOBODY, 1, ()), unknown),
        (m.AllocateProducerIds(NOBODY, 1), unknown),
        (m.ReportLogEnds(NOBODY, 1, ()), unknown),
        (m.OfflinePartitions(NOBODY, 1, ()), unknown),
        (m.BrokerHeartbeat(1, 1, 0, False, False), unknown),
    ]
    for request, due in pairs:
        await refused.due_of_controller(active, hello, request, due)


async def proposals(refused: Refused) -> None:
    """Propose ISR changes that the leader of a partition may not make."""
    active = await refused.active_controller()
    image = _image(refused)
    topic = image.topic(TOPIC)
    state = None if topic is None else topic.partitions[0]
    leader = None if state is None else image.brokers.get(state.leader)
    if topic is None or state is None or leader is None or len(state.replicas) > 3:
        raise Unsaid("the partition has no leader, or is on its way")
    hello = refused.hello(leader.broker_id, m.ROLE_BROKER)
    invalid = (ErrorCode.INVALID_REQUEST, *MOVED_ON)
    newer = ErrorCode.NOT_CONTROLLER

    def isr(*members: int) -> tuple[m.IsrMember, ...]:
        return tuple(m.IsrMember(each, -1) for each in members)

    elsewhere = next(each for each in image.brokers if each not in state.replicas)
    follower = next(each for each in state.replicas if each != leader.broker_id)
    same = m.PartitionChange(
        topic.topic_id, 0, state.leader_epoch, state.partition_epoch, isr(leader.broker_id)
    )
    pairs: list[tuple[m.PartitionChange, Due]] = [
        (replace(same, topic_id=ELSEWHERE), ErrorCode.UNKNOWN_TOPIC_ID),
        (replace(same, partition=9), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (replace(same, leader_epoch=state.leader_epoch + 9), newer),
        (replace(same, partition_epoch=state.partition_epoch + 999), newer),
        (replace(same, leader_epoch=state.leader_epoch - 1), OLD),
        (replace(same, partition_epoch=state.partition_epoch - 1), MOVED_ON),
        (replace(same, isr=()), invalid),
        (replace(same, isr=isr(leader.broker_id, leader.broker_id)), invalid),
        (replace(same, isr=isr(leader.broker_id, elsewhere)), invalid),
        (replace(same, isr=isr(follower)), invalid),
        (replace(same, recovering=True), (*invalid, ErrorCode.NONE)),
        (
            replace(same, isr=(*same.isr, m.IsrMember(follower, 1))),
            (ErrorCode.INELIGIBLE_REPLICA, *MOVED_ON),
        ),
    ]
    if not state.recovering:
        pairs[10] = (pairs[10][0], invalid)
    for change, due in pairs:
        request = m.AlterPartitions(leader.broker_id, leader.broker_epoch, (change,))
        stale = due if isinstance(due, tuple) else (due, ErrorCode.STALE_BROKER_EPOCH)
        await refused.due_of_controller(active, hello, request, stale)
    follows = m.AlterPartitions(follower, image.brokers[follower].broker_epoch, (same,))
    await refused.due_of_controller(active, hello, follows, invalid)


def _image(refused: Refused) -> MetadataImage:
    image = refused.image()
    if image is None or not image.brokers:
        raise Unsaid("no broker is registered")
    return image


STORIES: dict[str, Story] = {
    "quorum": quorum,
    "brokers": brokers,
    "proposals": proposals,
}
