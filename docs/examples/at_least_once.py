"""At least once: the work is done first, then the offset is committed. A crash repeats some work.

    python docs/examples/at_least_once.py localhost:9092 orders billing

Whatever happens between the work and the commit, the records are read again by whoever reads the
partition next, so every record is worked on. Nothing is skipped; some may be seen twice.
"""

import contextlib
import sys

from minikafka import Consumer


def main(servers: str, topic: str, group: str) -> None:
    """Print every record of a topic, at least once."""
    with Consumer(
        servers,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=6_000,  # how soon others take over after a crash
    ) as consumer:
        consumer.subscribe([topic])
        while True:
            for record in consumer.poll(timeout_ms=1000, max_records=10):
                print((record.value or b"").decode(), flush=True)  # the work
            consumer.commit()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main(*sys.argv[1:])
