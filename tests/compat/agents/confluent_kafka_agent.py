"""The agent of confluent-kafka."""

import queue
import threading
import time
from collections.abc import Callable
from typing import Any

import confluent_kafka.admin
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from . import base

Request = dict[str, Any]
admins: Any = confluent_kafka.admin
WAIT_S = 20


SECURITY = {
    "protocol": ("security.protocol",),
    "ca": ("ssl.ca.location",),
    "own": ("ssl.certificate.location", "ssl.key.location"),
    "mechanism": ("sasl.mechanisms",),
    "user": ("sasl.username",),
    "password": ("sasl.password",),
}


def cluster(request: Request) -> dict[str, Any]:
    """Tell where the cluster is, and how to be let in."""
    return {"bootstrap.servers": request["bootstrap"], **base.security_of(request, SECURITY)}


def code_of(error: BaseException) -> int | None:
    found = error.args[0] if isinstance(error, KafkaException) else None
    return None if found is None else int(found.code())


def admin(request: Request) -> Any:
    """A client of its own for each request; it lives until the next one."""
    joined.admin = admins.AdminClient(cluster(request))
    return joined.admin


def results(futures: dict[Any, Any]) -> list[Any]:
    return [future.result(WAIT_S) for future in futures.values()]


def create_topics(request: Request) -> None:
    new = [
        admins.NewTopic(
            t["name"], t["partitions"], t.get("replicas", 1), config=t.get("configs") or {}
        )
        for t in request["topics"]
    ]
    results(admin(request).create_topics(new))


def delete_topics(request: Request) -> None:
    results(admin(request).delete_topics(request["names"]))


def list_topics(request: Request) -> list[str]:
    return sorted(admin(request).list_topics(timeout=WAIT_S).topics)


def look(request: Request) -> list[str]:
    """It goes on trying, and says by a callback why."""
    said: list[str] = []
    client = admins.AdminClient(
        {**cluster(request), "error_cb": lambda error: said.append(error.str())}
    )
    deadline = time.monotonic() + WAIT_S
    while not said and time.monotonic() < deadline:
        try:
            return sorted(client.list_topics(timeout=0.2).topics)
        except KafkaException:
            client.poll(0)
    raise RuntimeError("; ".join(said))


def partitions(request: Request) -> int:
    topic = request["topic"]
    return len(admin(request).list_topics(topic, timeout=WAIT_S).topics[topic].partitions)


def create_partitions(request: Request) -> None:
    results(
        admin(request).create_partitions([admins.NewPartitions(request["topic"], request["count"])])
    )


def _resource(request: Request, **more: Any) -> Any:
    kind = admins.ConfigResource.Type[request["kind"].upper()]
    return admins.ConfigResource(kind, request["name"], **more)


def describe_config(request: Request) -> dict[str, str | None]:
    resource = _resource(request)
    (found,) = results(admin(request).describe_configs([resource]))
    return {name: entry.value for name, entry in found.items()}


def alter_config(request: Request) -> None:
    entry = admins.ConfigEntry(
        request["key"], request["value"], incremental_operation=admins.AlterConfigOpType.SET
    )
    results(
        admin(request).incremental_alter_configs([_resource(request, incremental_configs=[entry])])
    )


def produce(request: Request) -> list[list[int]]:
    settings = {
        **cluster(request),
        "acks": request.get("acks", -1),
        "compression.type": request.get("compression", "none"),
        "enable.idempotence": request.get("idempotent", False),
        "linger.ms": 5,
        "message.max.bytes": request.get("limit", 1_000_000),
    }
    producer = Producer(settings)
    return deliver(producer, request)


def deliver(producer: Producer, request: Request) -> list[list[int]]:
    sent = base.records_in(request)
    found: list[Any] = [None for _ in sent]

    def noted(number: int) -> Callable[..., None]:
        def note(error: Any, message: Any) -> None:
            found[number] = error or [message.partition(), message.offset()]

        return note

    for number, one in enumerate(sent):
        producer.produce(
            request["topic"],
            one.value,
            one.key,
            partition=one.partition,
            on_delivery=noted(number),
            timestamp=one.timestamp_ms,
            headers=list(one.headers),
        )
    producer.flush(WAIT_S)
    for each in found:
        if not isinstance(each, list):
            raise KafkaException(each)
    return found


def record_of(message: Any) -> dict[str, Any]:
    if message.error() is not None:
        raise KafkaException(message.error())
    headers = list(message.headers() or ())
    sent = base.Sent(
        message.partition(), message.key(), message.value(), headers, message.timestamp()[1]
    )
    return base.record_out(sent, message.topic(), message.offset())


def reader(request: Request) -> Consumer:
    return Consumer(
        {
            **cluster(request),
            "group.id": "unused",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "check.crcs": True,
            "isolation.level": request.get("isolation", "read_uncommitted"),
            "fetch.message.max.bytes": request.get("fetch_bytes", 1_048_576),
        }
    )


def consume(request: Request) -> list[dict[str, Any]]:
    consumer = reader(request)
    topic, count = request["topic"], request["count"]
    places = [TopicPartition(topic, p, 0) for p in range(request["partitions"])]
    consumer.assign(places)
    found: list[dict[str, Any]] = []
    deadline = time.monotonic() + request.get("wait_s", WAIT_S)
    while len(found) < count and time.monotonic() < deadline:
        found += map(record_of, consumer.consume(count - len(found), timeout=1))
    consumer.close()
    return found


def ends(request: Request) -> list[list[int]]:
    consumer = reader(request)
    found = [
        list(consumer.get_watermark_offsets(TopicPartition(request["topic"], p), WAIT_S))
        for p in range(request["partitions"])
    ]
    consumer.close()
    return found


def offset_for_time(request: Request) -> int:
    consumer = reader(request)
    asked = TopicPartition(request["topic"], request["partition"], request["ms"])
    (found,) = consumer.offsets_for_times([asked], WAIT_S)
    consumer.close()
    return found.offset


class Member:
    """A member of a group, polled in a thread; what else it does, it does between polls."""

    def __init__(self, request: Request) -> None:
        settings = {
            **cluster(request),
            "group.id": request["group"],
            "auto.offset.reset": "earliest",
            "enable.auto.commit": request.get("auto_commit", False),
            "auto.commit.interval.ms": 100,
            "session.timeout.ms": request.get("session_ms", 6000),
            "heartbeat.interval.ms": 200,
            "partition.assignment.strategy": request.get("strategy", "range"),
            "topic.metadata.refresh.interval.ms": 500,
            "isolation.level": request.get("isolation", "read_uncommitted"),
        }
        if "instance_id" in request:
            settings["group.instance.id"] = request["instance_id"]
        self.is_cooperative = "cooperative" in settings["partition.assignment.strategy"]
        self.consumer = Consumer(settings)
        self.consumer.subscribe(
            request["topics"], on_assign=self._on_assign, on_revoke=self._on_revoke
        )
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

    def _run(self) -> None:
        while not self._is_over:
            messages = self.consumer.consume(500, timeout=0.1)
            records = [record_of(one) for one in messages if one.error() is None]
            if records:
                base.tell_records(records)
            while not self._work.empty():
                work, answer = self._work.get()
                try:
                    answer.put(work())
                except KafkaException as error:
                    answer.put(error)
        self.consumer.close()

    def _on_assign(self, consumer: Consumer, places: list[TopicPartition]) -> None:
        if self.is_cooperative:
            consumer.incremental_assign(places)
        else:
            consumer.assign(places)
        self._tell()

    def _on_revoke(self, consumer: Consumer, places: list[TopicPartition]) -> None:
        if self.is_cooperative:
            consumer.incremental_unassign(places)
        else:
            consumer.unassign()
        self._tell()

    def _tell(self) -> None:
        base.tell_assigned((p.topic, p.partition) for p in self.consumer.assignment())


class Joined:
    """What the agent holds: one member, one transactional producer, one admin client."""

    member: Member | None = None
    admin: Any = None
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
    joined.producer = joined.admin = None


def places_of(offsets: list[list[Any]]) -> list[TopicPartition]:
    return [TopicPartition(topic, partition, offset) for topic, partition, offset in offsets]


def commit(request: Request) -> None:
    one = member()
    offsets = places_of(request["offsets"])
    for done in one.do(lambda: one.consumer.commit(offsets=offsets, asynchronous=False)):
        if done.error is not None:
            raise KafkaException(done.error)


def committed(request: Request) -> list[int]:
    one = member()
    asked = [TopicPartition(topic, partition) for topic, partition in request["places"]]
    found = one.do(lambda: one.consumer.committed(asked, timeout=WAIT_S))
    return [place.offset if place.offset >= 0 else -1 for place in found]


def groups(request: Request) -> list[str]:
    found = admin(request).list_consumer_groups(request_timeout=WAIT_S).result()
    return sorted(group.group_id for group in found.valid)


def describe_group(request: Request) -> dict[str, Any]:
    (found,) = results(admin(request).describe_consumer_groups([request["group"]]))
    owned = [
        [place.topic, place.partition]
        for one in found.members
        for place in one.assignment.topic_partitions
    ]
    state = found.state.name.title().replace("_", "")
    return {"state": state, "members": len(found.members), "owned": sorted(owned)}


def group_offsets(request: Request) -> list[list[Any]]:
    asked = confluent_kafka.ConsumerGroupTopicPartitions(request["group"])
    (found,) = results(admin(request).list_consumer_group_offsets([asked]))
    return sorted([p.topic, p.partition, p.offset] for p in found.topic_partitions)


def alter_group_offsets(request: Request) -> None:
    asked = confluent_kafka.ConsumerGroupTopicPartitions(
        request["group"], places_of(request["offsets"])
    )
    (found,) = results(admin(request).alter_consumer_group_offsets([asked]))
    for place in found.topic_partitions:
        if place.error is not None:
            raise KafkaException(place.error)


def delete_group(request: Request) -> None:
    results(admin(request).delete_consumer_groups([request["group"]]))


def delete_records(request: Request) -> int:
    asked = TopicPartition(request["topic"], request["partition"], request["offset"])
    (found,) = results(admin(request).delete_records([asked]))
    return int(found.low_watermark)


def tx_open(request: Request) -> None:
    joined.producer = Producer(
        {
            **cluster(request),
            "transactional.id": request["id"],
            "transaction.timeout.ms": request.get("timeout_ms", 60_000),
            "linger.ms": 0,
        }
    )
    joined.producer.init_transactions(WAIT_S)


def producer() -> Producer:
    assert joined.producer is not None
    return joined.producer


def tx_begin(_: Request) -> None:
    producer().begin_transaction()


def tx_send(request: Request) -> list[list[int]]:
    return deliver(producer(), request)


def tx_offsets(request: Request) -> None:
    one = member()
    offsets = places_of(request["offsets"])
    metadata = one.do(lambda: one.consumer.consumer_group_metadata())
    producer().send_offsets_to_transaction(offsets, metadata, WAIT_S)


def tx_commit(_: Request) -> None:
    producer().commit_transaction(WAIT_S)


def tx_abort(_: Request) -> None:
    producer().abort_transaction(WAIT_S)


OPS = (
    alter_config,
    alter_group_offsets,
    commit,
    committed,
    consume,
    create_partitions,
    create_topics,
    delete_group,
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
