"""Reads the audit topic inside of brokers, and checks it against the audited requests.

In the end every request of the committed metadata is in the topic once, in order, and each record
follows the one before it (R-54).
"""

from typing import Any

from minikafka.broker.partition.own_reading import read_own
from minikafka.broker.partition.partition import Partition
from minikafka.protocol.audit import CHANGE, ChainCheck, read_event
from minikafka.protocol.control.image import MetadataImage
from minikafka.protocol.records.batch_header import headers
from minikafka.protocol.records.records import records
from minikafka.protocol.types import AUDIT_TOPIC, TopicIdPartition

from .cluster import Cluster
from .inside import partitions_of

Found = list[tuple[int, bytes | None, bytes | None]]
"""Of each record its offset, its key and its value."""


async def audit_of(partition: Partition) -> Found:
    """Return every record of a replica of the audit topic."""
    found, at, end = Found(), partition.log_start_offset, partition.log_end_offset
    while at < end:
        data = await read_own(partition, at, end)
        assert data is not None
        assert len(data)
        for position, header in headers(data):
            found.extend((each.offset, each.key, each.value) for each in records(data, position))
            at = header.next_offset
    return found


def events_of(found: Found) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the events, and what is wrong with the chain."""
    chain, events, wrong = ChainCheck(), list[dict[str, Any]](), list[str]()
    for each in found:
        fault, event = chain.add(*each), read_event(each[2])
        wrong += [] if fault is None else [fault]
        events += [] if event is None else [event]
    return events, wrong


def audit_leader(image: MetadataImage | None, cluster: Cluster) -> Partition | None:
    """Return the leading replica of the audit topic; None while none leads."""
    topic = None if image is None else image.topic(AUDIT_TOPIC)
    if topic is None or topic.partitions[0].leader < 0:
        return None
    daemon = cluster.brokers[topic.partitions[0].leader]
    if daemon.process is None or not daemon.process.alive:
        return None
    replica = partitions_of(daemon.process).get(TopicIdPartition(topic.topic_id, 0))
    return None if replica is None or replica.leader is None else replica


def is_audit_written(image: MetadataImage | None, cluster: Cluster) -> bool:
    """Return whether the leader has written every request, and all of it is committed."""
    leader = audit_leader(image, cluster)
    if leader is None or image is None or not image.audited.newest:
        return False
    writers = [
        daemon.process.broker.parts.edge.audit_writer
        for daemon in cluster.brokers.values()
        if daemon.process is not None and daemon.process.broker is not None
    ]
    link = next((each.link for each in writers if each.partition is leader), None)
    is_committed = leader.high_watermark == leader.log_end_offset
    return is_committed and link is not None and link.number == image.audited.newest


async def judge_audit(image: MetadataImage | None, cluster: Cluster) -> list[str]:
    """Return every contradiction between the audit topic and the audited requests."""
    leader = audit_leader(image, cluster)
    assert image is not None
    assert leader is not None
    process = cluster.brokers[leader.host.broker_id].process
    assert process is not None
    found: Found = await cluster.world.loop.spawn_in(process, audit_of(leader), "read the audit")
    events, wrong = events_of(found)
    told = [
        (each["number"], each["data"]["metadata_offset"])
        for each in events
        if each["type"] == CHANGE
    ]
    expected = [(each.number, each.offset) for each in image.audited]
    if told != expected:
        wrong.append(f"the topic has {told}, the metadata have {expected}")
    return [f"audit: {each}" for each in wrong]
