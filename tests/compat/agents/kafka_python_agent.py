"""The agent of kafka-python."""

import queue
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import kafka
import kafka.admin
import kafka.errors
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.structs import OffsetAndMetadata

from . import base

Request = dict[str, Any]
WAIT_S = 20
ASSIGNORS = {"range": RangePartitionAssignor, "cooperative-sticky": CooperativeStickyAssignor}
ISOLATION = {"read_uncommitted": 0, "read_committed": 1}


SECURITY = {
    "protocol": ("security_protocol",),
    "ca": ("ssl_cafile",),
    "own": ("ssl_certfile", "ssl_keyfile"),
    "mechanism": ("sasl_mechanism",),
    "user": ("sasl_plain_username",),
    "password": ("sasl_plain_password",),
}


def cluster(request: Request) -> dict[str, Any]:
    """Tell where the cluster is, and how to be let in."""
    return {"bootstrap_servers": request["bootstrap"], **base.security_of(request, SECURITY)}


class Told(Exception):
    """A refusal that the client gives as text: "[Error 40] ..."."""

    @property
    def errno(self) -> int:
        """The number in it."""
        found = re.search(r"\[Error (-?\d+)\]", str(self))
        assert found is not None, self
        return int(found[1])


def code_of(error: BaseException) -> int | None:
    return getattr(error, "errno", None)


@contextmanager
def admin(request: Request, **more: Any) -> Iterator[Any]:
    client = kafka.KafkaAdminClient(**cluster(request), **more)
    try:
        yield client
    finally:
        client.close()


def create_topics(request: Request) -> None:
    new = [
        kafka.admin.NewTopic(
            t["name"], t["partitions"], t.get("replicas", 1), topic_configs=t.get("configs") or {}
        )
        for t in request["topics"]
    ]
    with admin(request) as client:
        client.create_topics(new)


def delete_topics(request: Request) -> None:
    with admin(request) as client:
        client.delete_topics(request["names"])


def list_topics(request: Request) -> list[str]:
    with admin(request) as client:
        return sorted(client.list_topics())


def look(request: Request) -> list[str]:
    with base.reasons("kafka"), admin(request, bootstrap_timeout_ms=base.LOOK_MS) as client:
        return sorted(client.list_topics())


def partitions(request: Request) -> int:
    with admin(request) as client:
        (found,) = client.describe_topics([request["topic"]])
        return len(found["partitions"])


def create_partitions(request: Request) -> None:
    with admin(request) as client:
        client.create_partitions({request["topic"]: request["count"]})


def _resource(request: Request, configs: Any = None) -> Any:
    kind = kafka.admin.ConfigResourceType[request["kind"].upper()]
    return kafka.admin.ConfigResource(kind, request["name"], configs)


def describe_config(request: Request) -> dict[str, str | None]:
    with admin(request) as client:
        found = client.describe_configs([_resource(request)], config_filter="all")
    (of_kind,) = found.values()
    return {name: entry["value"] for name, entry in of_kind[request["name"]].items()}


def alter_config(request: Request, incremental: bool = True) -> None:
    change = {request["key"]: request["value"]}
    with admin(request) as client:
        found = client.alter_configs([_resource(request, change)], incremental=incremental)
    words = found[request["kind"]][request["name"]]
    if words != "OK":
        raise Told(words)


def alter_config_in_full(request: Request) -> None:
    alter_config(request, incremental=False)


def produce(request: Request) -> list[list[int]]:
    compression = request.get("compression", "none")
    producer = kafka.KafkaProducer(
        **cluster(request),
        acks={-1: "all"}.get(request.get("acks", -1), request.get("acks")),
        compression_type=None if compression == "none" else compression,
        enable_idempotence=request.get("idempotent", False),
        linger_ms=5,
        max_request_size=request.get("limit", 1_048_576),
    )
    try:
        return deliver(producer, request)
    finally:
        producer.close(5)


def deliver(producer: Any, request: Request) -> list[list[int]]:
    waiting = [
        producer.send(
            request["topic"], one.value, one.key, one.headers, one.partition, one.timestamp_ms
        )
        for one in base.records_in(request)
    ]
    found = [each.get(WAIT_S) for each in waiting]
    return [[one.partition, one.offset] for one in found]


def record_of(record: Any) -> dict[str, Any]:
    sent = base.Sent(
        record.partition, record.key, record.value, list(record.headers), record.timestamp
    )
    return base.record_out(sent, record.topic, record.offset)


@contextmanager
def reader(request: Request) -> Iterator[Any]:
    consumer = kafka.KafkaConsumer(
        **cluster(request),
        group_id=None,
        check_crcs=True,
        isolation_level=request.get("isolation", "read_uncommitted"),
        max_partition_fetch_bytes=request.get("fetch_bytes", 1_048_576),
    )
    try:
        yield consumer
    finally:
        consumer.close()


def places(request: Request) -> list[Any]:
    return [kafka.TopicPartition(request["topic"], p) for p in range(request["partitions"])]


def consume(request: Request) -> list[dict[str, Any]]:
    with reader(request) as consumer:
        consumer.assign(places(request))
        consumer.seek_to_beginning()
        found: list[dict[str, Any]] = []
        deadline = time.monotonic() + request.get("wait_s", WAIT_S)
        while len(found) < request["count"] and time.monotonic() < deadline:
            for records in consumer.poll(timeout_ms=1000).values():
                found += map(record_of, records)
    return found


def ends(request: Request) -> list[list[int]]:
    asked = places(request)
    with reader(request) as consumer:
        first, last = consumer.beginning_offsets(asked), consumer.end_offsets(asked)
    return [[first[place], last[place]] for place in asked]


def offset_for_time(request: Request) -> int:
    place = kafka.TopicPartition(request["topic"], request["partition"])
    with reader(request) as consumer:
        found = consumer.offsets_for_times({place: request["ms"]})[place]
    return -1 if found is None else int(found.offset)


class Member(kafka.ConsumerRebalanceListener):  # type: ignore[misc]
    """A member of a group, polled in a thread; what else it does, it does between polls."""

    def __init__(self, request: Request) -> None:
        self.consumer = kafka.KafkaConsumer(
            **cluster(request),
            group_id=request["group"],
            group_instance_id=request.get("instance_id"),
            auto_offset_reset="earliest",
            enable_auto_commit=request.get("auto_commit", False),
            auto_commit_interval_ms=100,
            session_timeout_ms=request.get("session_ms", 6000),
            heartbeat_interval_ms=200,
            metadata_max_age_ms=500,
            isolation_level=request.get("isolation", "read_uncommitted"),
            partition_assignment_strategy=[ASSIGNORS[request.get("strategy", "range")]],
        )
        self.consumer.subscribe(request["topics"], listener=self)
        self._work: queue.Queue[tuple[Callable[[], Any], queue.Queue[Any]]] = queue.Queue()
        self._is_over = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def do(self, work: Callable[[], Any]) -> Any:
        answer: queue.Queue[Any] = queue.Queue()
        self._work.put((work, answer))
        found = answer.get(timeout=WAIT_S)
        if isinstance(found, BaseException):
            raise found
        return found

    def leave(self) -> None:
        self._is_over = True
        self._thread.join(WAIT_S)

    def on_partitions_assigned(self, assigned: Any) -> None:
        base.tell_assigned(
            {(p.topic, p.partition) for p in [*self.consumer.assignment(), *assigned]}
        )

    def on_partitions_revoked(self, revoked: Any) -> None:
        kept = self.consumer.assignment() - set(revoked)
        base.tell_assigned((p.topic, p.partition) for p in kept)

    def _run(self) -> None:
        while not self._is_over:
            for records in self._poll().values():
                base.tell_records([record_of(one) for one in records])
            while not self._work.empty():
                work, answer = self._work.get()
                try:
                    answer.put(work())
                except kafka.errors.KafkaError as error:
                    answer.put(error)
        self.consumer.close()

    def _poll(self) -> dict[Any, list[Any]]:
        # kafka-python 3.0.12 loses its assignment if a poll runs out just as a join completes,
        # and neither fetches nor beats its heart from then on: long enough for any join.
        try:
            found: dict[Any, list[Any]] = self.consumer.poll(timeout_ms=500)
        except kafka.errors.KafkaConnectionError:
            # It also lets out that a dead broker refused it, where it looks for a coordinator
            # before it has heard of another broker: it goes on with the next poll.
            return {}
        return found


class Joined:
    """What the agent holds: one member, one transactional producer."""

    member: Member | None = None
    producer: Any = None


joined = Joined()


def member() -> Member:
    assert joined.member is not None
    return joined.member


def join(request: Request) -> None:
    joined.member = Member(request)


def leave(_: Request) -> None:
    found, joined.member = joined.member, None
    if found is not None:
        found.leave()


def reset(request: Request) -> None:
    leave(request)
    found, joined.producer = joined.producer, None
    if found is not None:
        found.close(1)


def offsets_of(offsets: list[list[Any]]) -> dict[Any, OffsetAndMetadata]:
    return {
        kafka.TopicPartition(topic, partition): OffsetAndMetadata(offset, "", -1)
        for topic, partition, offset in offsets
    }


def commit(request: Request) -> None:
    one, offsets = member(), offsets_of(request["offsets"])
    one.do(lambda: one.consumer.commit(offsets))


def committed(request: Request) -> list[int]:
    one = member()
    asked = [kafka.TopicPartition(topic, partition) for topic, partition in request["places"]]
    found = one.do(lambda: [one.consumer.committed(place) for place in asked])
    return [-1 if offset is None else offset for offset in found]


def groups(request: Request) -> list[str]:
    with admin(request) as client:
        return sorted(group["group_id"] for group in client.list_groups())


def describe_group(request: Request) -> dict[str, Any]:
    with admin(request) as client:
        found = client.describe_groups([request["group"]])[request["group"]]
    owned = [
        [assigned["topic"], partition]
        for one in found["members"]
        for assigned in one["member_assignment"]["assigned_partitions"]
        for partition in assigned["partitions"]
    ]
    return {
        "state": found["group_state"],
        "members": len(found["members"]),
        "owned": sorted(owned),
    }


def group_offsets(request: Request) -> list[list[Any]]:
    with admin(request) as client:
        found = client.list_group_offsets(request["group"])[request["group"]]
    return sorted([place.topic, place.partition, one.offset] for place, one in found.items())


def _check(found: dict[Any, Any]) -> None:
    for error in found.values():
        if error is not None and error is not kafka.errors.NoError:
            raise error()


def alter_group_offsets(request: Request) -> None:
    with admin(request) as client:
        _check(client.alter_group_offsets(request["group"], offsets_of(request["offsets"])))


def delete_group_offsets(request: Request) -> None:
    place = kafka.TopicPartition(request["topic"], request["partition"])
    with admin(request) as client:
        _check(client.delete_group_offsets(request["group"], [place]))


def delete_group(request: Request) -> None:
    with admin(request) as client:
        (found,) = client.delete_groups([request["group"]]).values()
    if found != "OK":
        raise getattr(kafka.errors, found)()


def delete_records(request: Request) -> int:
    place = kafka.TopicPartition(request["topic"], request["partition"])
    with admin(request) as client:
        return int(client.delete_records({place: request["offset"]})[place]["low_watermark"])


def log_dirs(request: Request) -> int:
    """Bytes that the broker tells of a topic's partitions."""
    with admin(request) as client:
        found = client.describe_log_dirs()
    return sum(
        partition["partition_size"]
        for of_broker in found
        for directory in of_broker["log_dirs"]
        for topic in directory["topics"]
        if topic["name"] == request["topic"]
        for partition in topic["partitions"]
    )


def list_transactions(request: Request) -> list[str]:
    with admin(request) as client:
        found = client.list_transactions()
    return sorted(one.transactional_id for of_broker in found.values() for one in of_broker)


def tx_open(request: Request) -> None:
    joined.producer = kafka.KafkaProducer(
        **cluster(request),
        transactional_id=request["id"],
        transaction_timeout_ms=request.get("timeout_ms", 60_000),
    )
    joined.producer.init_transactions()


def tx_begin(_: Request) -> None:
    joined.producer.begin_transaction()


def tx_send(request: Request) -> list[list[int]]:
    return deliver(joined.producer, request)


def tx_offsets(request: Request) -> None:
    one = member()
    metadata = one.do(lambda: one.consumer.group_metadata())
    joined.producer.send_offsets_to_transaction(offsets_of(request["offsets"]), metadata)


def tx_commit(_: Request) -> None:
    joined.producer.commit_transaction()


def tx_abort(_: Request) -> None:
    joined.producer.abort_transaction()


OPS = (
    alter_config,
    alter_config_in_full,
    alter_group_offsets,
    commit,
    committed,
    consume,
    create_partitions,
    create_topics,
    delete_group,
    delete_group_offsets,
    delete_records,
    delete_topics,
    describe_config,
    describe_group,
    ends,
    group_offsets,
    groups,
    join,
    leave,
    list_topics,
    list_transactions,
    log_dirs,
    look,
    offset_for_time,
    partitions,
    produce,
    reset,
    tx_abort,
    tx_begin,
    tx_commit,
    tx_offsets,
    tx_open,
    tx_send,
)


def main() -> None:
    base.serve({op.__name__: op for op in OPS}, code_of)
