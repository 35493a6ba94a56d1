"""An application of Quix Streams: counts, a join, tumbling windows. It knows nothing of minikafka.

    python quix_app.py BOOTSTRAP STATE_FOLDER INSTANCE at-least-once|exactly-once [IDLE_S]

It runs in the environment of tests/compat/quix.py. Instances share a group. With IDLE_S it ends
once nothing came for so long.
"""

import logging
import sys
from typing import Any

from quixstreams import Application

ORDERS, NAMES, COUNTS, WINDOWS = "orders", "names", "counts", "windows"
GROUP = "quix"
WINDOW_MS = 1000
SESSION_MS = 6000


def count(order: dict[str, Any], state: Any) -> dict[str, Any]:
    """Number the orders of each key."""
    seen = state.get("seen", 0) + 1
    state.set("seen", seen)
    return {**order, "count": seen}


def application(bootstrap: str, folder: str, instance: str, guarantee: str) -> Application:
    """The application and its dataframes."""
    app = Application(
        broker_address=bootstrap,
        consumer_group=GROUP,
        auto_offset_reset="earliest",
        commit_interval=0.2,
        consumer_poll_timeout=0.2,
        state_dir=folder,
        processing_guarantee=guarantee,
        loglevel=None,
        consumer_extra_config={"session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": 500},
        producer_extra_config={
            "transactional.id": f"{GROUP}-{instance}",
            "transaction.timeout.ms": 20_000,
        }
        if guarantee == "exactly-once"
        else {},
    )
    orders = app.dataframe(app.topic(ORDERS, value_deserializer="json"))
    names = app.dataframe(app.topic(NAMES, value_deserializer="json"))
    counted = orders.apply(count, stateful=True)
    counted.join_asof(names).to_topic(app.topic(COUNTS, value_serializer="json"))
    windows = orders.tumbling_window(WINDOW_MS).count().final()
    windows.to_topic(app.topic(WINDOWS, value_serializer="json"))
    return app


def main() -> None:
    bootstrap, folder, instance, guarantee, *idle = sys.argv[1:]
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    app = application(bootstrap, folder, instance, guarantee)
    app.run(timeout=float(idle[0]) if idle else 0.0, collect=False)


if __name__ == "__main__":
    main()
