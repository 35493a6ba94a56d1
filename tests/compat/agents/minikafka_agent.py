"""The agent of our own client, in its face for ordinary code."""

import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from minikafka import (
    Admin,
    ConfigChange,
    ConfigResource,
    Consumer,
    NewTopic,
    Producer,
    RebalanceListener,
    TopicPartition,
)
from minikafka.client.errors import AdminError, ClientError, MessageTooLarge
from minikafka.protocol.errors import ApiError, ErrorCode

from . import base

Request = dict[str, Any]
WAIT_S = 20
ACKS = {-1: "all", 0: "0", 1: "1"}


SECURITY = {
    "protocol": ("security_protocol",),
    "ca": ("ssl_truststore_location",),
    "own": ("ssl_keystore_location",),
    "mechanism": ("sasl_mechanism",),
    "user": ("sasl_username",),
    "password": ("sasl_password",),
}


def cluster(request: Request) -> dict[str, Any]:
    """Tell where the cluster is, and how to be let in."""
    return {"bootstrap_servers": request["bootstrap"], **base.security_of(request, SECURITY)}


def code_of(error: BaseException) -> int | None:
    """The broker's answer below what was raised."""
    if isinstance(error, MessageTooLarge):
        return int(ErrorCode.MESSAGE_TOO_LARGE)
    if isinstance(error, ApiError):
        return int(error.code)
    if isinstance(error, AdminError):
        return int(next(iter(error.errors.values())).code)
    below = getattr(error, "error", None) or getattr(error, "cause", None) or error.__cause__
    return None if below is None else code_of(below)


@contextmanager
def admin(request: Request, **more: Any) -> Iterator[Admin]:
    with Admin(**cluster(request), **more) as client:
        yield client


def create_topics(request: Request) -> None:
    new = [
        NewTopic(t["name"], t["partitions"], t.get("replicas", 1), configs=t.get("configs") or {})
        for t in request["topics"]
    ]
    with admin(request) as client:
        client.create_topics(new)


def delete_topics(request: Request) -> None:
    with admin(request) as client:
        client.delete_topics(request["names"])


def list_topics(request: Request) -> list[str]:
    with admin(request) as client:
        return sorted(one.name for one in client.list_topics())


def look(request: Request) -> list[str]:
    with admin(request, bootstrap_timeout_ms=base.LOOK_MS) as client:
        return sorted(one.name for one in client.list_topics())


def partitions(request: Request) -> int:
    topic = request["topic"]
    with admin(request) as client:
        return len(client.describe_topics([topic])[topic].partitions)


def create_partitions(request: Request) -> None:
    with admin(request) as client:
        client.create_partitions({request["topic"]: request["count"]})


def _resource(request: Request) -> ConfigResource:
    if request["kind"] == "topic":
        return ConfigResource.topic(request["name"])
    return ConfigResource.broker(int(request["name"]))


def describe_config(request: Request) -> dict[str, str | None]:
    with admin(request) as client:
        (found,) = client.describe_configs([_resource(request)]).values()
    return {name: entry.value for name, entry in found.items()}


def alter_config(request: Request) -> None:
    change = ConfigChange(request["key"], request["value"])
    with admin(request) as client:
        client.incremental_alter_configs({_resource(request): [change]})


def alter_config_in_full(request: Request) -> None:
    with admin(request) as client:
        client.alter_configs({_resource(request): {request["key"]: request["value"]}})


def produce(request: Request) -> list[list[int]]:
    with Producer(
        **cluster(request),
        acks=ACKS[request.get("acks", -1)],
        compression_type=request.get("compression", "none"),
        enable_idempotence=request.get("idempotent", False),
        linger_ms=5,
    ) as producer:
        return deliver(producer, request)


def deliver(producer: Producer, request: Request) -> list[list[int]]:
    waiting = [
        producer.send(
            request["topic"],
            one.value,
            one.key,
            partition=one.partition,
            timestamp_ms=one.timestamp_ms,
            headers=one.headers,
        )
        for one in base.records_in(request)
    ]
    found = [each.result(WAIT_S) for each in waiting]
    return [[one.partition, one.offset] for one in found]


def record_of(record: Any) -> dict[str, Any]:
    sent = base.Sent(
        record.partition, record.key, record.value, list(record.headers), record.timestamp_ms
    )
    return base.record_out(sent, record.topic, record.offset)


def places(request: Request) -> list[TopicPartition]:
    return [TopicPartition(request["topic"], p) for p in range(request["partitions"])]


def consume(request: Request) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    deadline = time.monotonic() + request.get("wait_s", WAIT_S)
    with Consumer(
        **cluster(request),
        auto_offset_reset="earliest",
        isolation_level=request.get("isolation", "read_uncommitted"),
        max_partition_fetch_bytes=request.get("fetch_bytes", 1_048_576),
    ) as consumer:
        consumer.assign(places(request))
        while len(found) < request["count"] and time.monotonic() < deadline:
            found += map(record_of, consumer.poll(timeout_ms=1000))
    return found


def ends(request: Request) -> list[list[int]]:
    asked = places(request)
    with Consumer(**cluster(request)) as consumer:
        first, last = consumer.beginning_offsets(asked), consumer.end_offsets(asked)
    return [[first[place], last[place]] for place in asked]


def offset_for_time(request: Request) -> int:
    place = TopicPartition(request["topic"], request["partition"])
    with Consumer(**cluster(request)) as consumer:
        found = consumer.offsets_for_times({place: request["ms"]})[place]
    return -1 if found is None else found.offset


class Member:
    """A member of a group, polled in a thread; what else it does, it does between polls."""

    def __init__(self, request: Request) -> None:
        self.consumer = Consumer(
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
            partition_assignment_strategy=request.get("strategy", "range"),
        )
        self._owned: dict[TopicPartition, None] = {}
        listener = RebalanceListener(self._on_assigned, self._on_revoked, self._on_revoked)
        self.consumer.subscribe(request["topics"], listener=listener)
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

    def _on_assigned(self, assigned: Any) -> None:
        self._owned.update(dict.fromkeys(assigned))
        base.tell_assigned((p.topic, p.partition) for p in self._owned)

    def _on_revoked(self, revoked: Any) -> None:
        for place in revoked:
            self._owned.pop(place, None)
        base.tell_assigned((p.topic, p.partition) for p in self._owned)

    def _run(self) -> None:
        while not self._is_over:
            records = self.consumer.poll(timeout_ms=100)
            if records:
                base.tell_records([record_of(one) for one in records])
            while not self._work.empty():
                work, answer = self._work.get()
                try:
                    answer.put(work())
                except (ClientError, ApiError) as error:
                    answer.put(error)
        self.consumer.close()


class Joined:
    """What the agent holds: one member, one transactional producer."""

    member: Member | None = None
    producer: Producer | None = None


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
        found.close(1000)


def offsets_of(offsets: list[list[Any]]) -> dict[TopicPartition, int]:
    return {TopicPartition(topic, partition): offset for topic, partition, offset in offsets}


def commit(request: Request) -> None:
    one, offsets = member(), offsets_of(request["offsets"])
    one.do(lambda: one.consumer.commit(offsets))


def committed(request: Request) -> list[int]:
    one = member()
    asked = [TopicPartition(topic, partition) for topic, partition in request["places"]]
    found = one.do(lambda: one.consumer.committed(asked))
    return [-1 if (at := found[place]) is None else at.offset for place in asked]


def groups(request: Request) -> list[str]:
    with admin(request) as client:
        return [one.group_id for one in client.list_groups()]


def describe_group(request: Request) -> dict[str, Any]:
    with admin(request) as client:
        found = client.describe_groups([request["group"]])[request["group"]]
    owned = sorted([p.topic, p.partition] for one in found.members for p in one.assignment)
    return {"state": found.state, "members": len(found.members), "owned": owned}


def group_offsets(request: Request) -> list[list[Any]]:
    with admin(request) as client:
        found = client.list_group_offsets(request["group"])
    return sorted([place.topic, place.partition, one.offset] for place, one in found.items())


def alter_group_offsets(request: Request) -> None:
    with admin(request) as client:
        client.alter_group_offsets(request["group"], offsets_of(request["offsets"]))


def delete_group_offsets(request: Request) -> None:
    place = TopicPartition(request["topic"], request["partition"])
    with admin(request) as client:
        client.delete_group_offsets(request["group"], [place])


def delete_group(request: Request) -> None:
    with admin(request) as client:
        client.delete_groups([request["group"]])


def delete_records(request: Request) -> int:
    place = TopicPartition(request["topic"], request["partition"])
    with admin(request) as client:
        return client.delete_records({place: request["offset"]})[place]


def log_dirs(request: Request) -> int:
    with admin(request) as client:
        found = client.describe_log_dirs()
    return sum(
        replica.size
        for directories in found.values()
        for directory in directories.values()
        for place, replica in directory.replicas.items()
        if place.topic == request["topic"]
    )


def list_transactions(request: Request) -> list[str]:
    with admin(request) as client:
        return [one.transactional_id for one in client.list_transactions()]


def tx_open(request: Request) -> None:
    joined.producer = Producer(
        **cluster(request),
        transactional_id=request["id"],
        transaction_timeout_ms=request.get("timeout_ms", 60_000),
    )


def producer() -> Producer:
    assert joined.producer is not None
    return joined.producer


def tx_begin(_: Request) -> None:
    producer().begin_transaction()


def tx_send(request: Request) -> list[list[int]]:
    return deliver(producer(), request)


def tx_offsets(request: Request) -> None:
    one = member()
    metadata = one.do(one.consumer.group_metadata)
    producer().send_offsets(offsets_of(request["offsets"]), metadata)


def tx_commit(_: Request) -> None:
    producer().commit_transaction()


def tx_abort(_: Request) -> None:
    producer().abort_transaction()


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
