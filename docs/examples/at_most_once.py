"""At most once: the offset is committed first, then the work is done. A crash loses some work.

    python docs/examples/at_most_once.py localhost:9092 readings display

Once a commit is acknowledged nobody reads the records before it again, so none is worked on twice.
Those that were committed and not worked on when the crash came are skipped.
"""

import contextlib
import sys

from minikafka import Consumer


def main(servers: str, topic: str, group: str) -> None:
    """Print the records of a topic, each at most once."""
    with Consumer(
        servers,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=6_000,  # how soon others take over after a crash
    ) as consumer:
        consumer.subscribe([topic])
        while True:
            records = consumer.poll(timeout_ms=1000, max_records=10)
            consumer.commit()
            for record in records:
                print((record.value or b"").decode(), flush=True)  # the work


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main(*sys.argv[1:])
