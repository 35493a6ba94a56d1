"""Exactly once: records read, worked on and written in one transaction with their offsets.

    python docs/examples/exactly_once.py localhost:9092 orders invoices billing worker-1

What is written and how far was read are committed together, or not at all. Whatever is killed, and
whenever: whoever reads the output with isolation_level="read_committed" sees the result of each
record once. Start as many as you like, each with a name of its own (worker-1, worker-2, ...), and
start one that was killed under its old name: that ends what it had begun at once.
"""

import contextlib
import sys

from minikafka import Consumer, Producer, TopicPartition, TransactionAbortable


def main(servers: str, source: str, target: str, group: str, name: str) -> None:
    """Write the result of every record of one topic to another, exactly once."""
    with (
        Producer(servers, transactional_id=f"{group}-{name}") as producer,
        Consumer(
            servers,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,  # the producer commits, with its transaction
            isolation_level="read_committed",
            session_timeout_ms=6_000,  # how soon others take over after a crash
        ) as consumer,
    ):
        consumer.subscribe([source])
        while True:
            records = consumer.poll(timeout_ms=1000, max_records=10)
            if not records:
                continue
            offsets = {TopicPartition(r.topic, r.partition): r.offset + 1 for r in records}
            try:
                with producer.transaction():
                    for record in records:
                        producer.send(target, work(record.value or b""), record.key)
                    producer.send_offsets(offsets, consumer.group_metadata())
            except TransactionAbortable as error:
                print(f"aborted, and done again: {error}", file=sys.stderr)
                go_back(consumer)


def work(value: bytes) -> bytes:
    """Do what the application is for."""
    return value.upper()


def go_back(consumer: Consumer) -> None:
    """Read again what was not committed."""
    for partition, committed in consumer.committed(consumer.assignment()).items():
        if committed is None:
            consumer.seek_to_beginning(partition)
        else:
            consumer.seek(partition, committed.offset)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main(*sys.argv[1:])
