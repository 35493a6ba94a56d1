"""Later additions to what shape.py draws from a seed, drawn by a random generator of their own.

So an old seed still draws the same shape, to which this module adds.
"""

import random
from collections.abc import Iterator
from dataclasses import replace

from minikafka.broker.replica.selector import RACK_AWARE
from minikafka.protocol.audit import AUDIT_ENABLE
from minikafka.security.authorizer_config import ALIAS

from .cluster import SEALED
from .coverage import LAST_FAULTS, LATER_FAULTS, SEALED_FAULTS
from .shape import Shape, TopicShape

DRIFT_MOST = 0.024
"""The greatest drift of a clock. Two clocks differ by at most twice that, below the 5 % that leases
allow."""
GROUP_MOST = 8
"""The most members of a group in runs that check that more are refused."""
AUTHORIZED = {"authorizer.class.name": ALIAS, "allow.everyone.if.no.acl.found": "true"}


def vary(shape: Shape, rng: random.Random) -> Shape:
    """Return the shape with the additions that `rng` draws."""
    shape = _shed(shape, rng)
    drifts = rng.random() < 0.4
    racks = rng.choice((0, 0, 2, 3))
    directories = rng.choice((1, 1, 2))
    later = [fault for fault in LATER_FAULTS if rng.random() < 0.3]
    if directories == 1 and "lose-directory" in later:
        later.remove("lose-directory")
    broker = dict(shape.broker)
    if "bit-rot" in later:
        # What rots is on stable storage: segments that are complete.
        small = (
            replace(each, segment_bytes=min(each.segment_bytes, 3000)) for each in shape.topics
        )
        shape = _on_topics(shape, tuple(small))
        broker["log.scrub.interval.ms"] = "3000"
    compacts = rng.random() < 0.3
    if compacts:
        broker |= {"log.cleaner.enable": "true", "log.cleaner.backoff.ms": "1000"}
    if racks:
        broker["replica.selector.class"] = RACK_AWARE
    later += [fault for fault in LAST_FAULTS if rng.random() < 0.3]
    refuses = rng.random() < 0.4
    if refuses:
        # Caches that are full, and looking for what is forgotten: it is refused there as well.
        broker |= {
            "max.incremental.fetch.session.cache.slots": rng.choice(("2", "1000")),
            "group.initial.rebalance.delay.ms": rng.choice(("0", "300")),
            "group.max.size": str(GROUP_MOST),
            "offsets.retention.check.interval.ms": "2000",
            "transaction.remove.expired.transaction.cleanup.interval.ms": "5000",
        }
    later_operations = ["throttle"] if rng.random() < 0.3 else []
    sealed = rng.random() < 0.4
    controller = dict(shape.controller)
    if sealed:
        later += [fault for fault in SEALED_FAULTS if rng.random() < 0.6]
        broker |= SEALED
        controller |= SEALED
    moves = directories > 1 and rng.random() < 0.7
    later_operations += ["move-replica"] * 2 if moves else []
    if rng.random() < 0.3:
        later_operations.append("change-credential")
    if rng.random() < 0.3:
        # Nobody is a super user, and nothing that the workload uses is ever covered by an entry.
        broker |= AUTHORIZED
        controller |= AUTHORIZED
        later_operations.append("change-acls")
    if rng.random() < 0.3:
        later_operations.append("change-quotas")
    delays = rng.random() < 0.4
    if delays:
        broker |= {"log.retention.check.interval.ms": "3000"}
    audits = rng.random() < 0.4
    if audits:
        broker |= {AUDIT_ENABLE: "true"}
        controller |= {AUDIT_ENABLE: "true"}
    if rng.random() < 0.4:
        # Trace points tell of what happens, and change nothing of it.
        broker |= {
            "minikafka.trace.every": rng.choice(("1", "4", "64")),
            "minikafka.trace.headers": rng.choice(("true", "false")),
        }
    connects = rng.choice((2, 3)) if rng.random() < 0.2 else 0
    return replace(
        shape,
        broker=broker,
        controller=controller,
        sealed=sealed,
        compacts=compacts,
        delays=delays,
        connects=connects,
        audits=audits,
        racks=racks,
        directories=directories,
        drift=DRIFT_MOST if drifts else 0.0,
        refuses=refuses,
        operations=(*shape.operations, *later_operations),
        faults=(*shape.faults, *later),
    )


def _shed(shape: Shape, rng: random.Random) -> Shape:
    """Let log starts advance in some runs, by retention.bytes, retention.ms, DeleteRecords."""
    is_wanted = rng.random() < 0.4
    topics = tuple(_with_retention(shape.topics, rng))
    by_request = rng.random() < 0.7
    if not is_wanted or topics == shape.topics:
        return shape
    return replace(
        _on_topics(shape, topics),
        operations=(*shape.operations, "delete-records") if by_request else shape.operations,
        broker={**shape.broker, "log.retention.check.interval.ms": "3000"},
    )


def _on_topics(shape: Shape, topics: tuple[TopicShape, ...]) -> Shape:
    """Return the shape, with these topics in place of those with the same names."""
    changed = {topic.name: topic for topic in topics}
    producers = tuple(
        replace(producer, topics=tuple(changed[each.name] for each in producer.topics))
        for producer in shape.producers
    )
    return replace(shape, topics=topics, producers=producers)


def _with_retention(topics: tuple[TopicShape, ...], rng: random.Random) -> Iterator[TopicShape]:
    for topic in topics:
        sheds = rng.random() < 0.7
        size = rng.choice((-1, -1, 3000, 10_000))
        age = rng.choice((-1, 3000, 10_000))
        segment = rng.choice((1000, 3000))
        if not sheds or topic.mortal or topic.ledger or topic.unclean:
            yield topic
        else:
            yield replace(
                topic,
                sheds=True,
                retention_bytes=size,
                retention_ms=age,
                segment_bytes=min(segment, topic.segment_bytes),
            )
