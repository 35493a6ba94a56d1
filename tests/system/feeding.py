"""A thread that writes numbered records in time; whatever it wrote is acknowledged in the end."""

import threading
import time
from typing import Any

import confluent_kafka


class Feeder:
    """Writes 0, 1, 2, ... as `write` says, so many a second, until it is told to stop."""

    def __init__(self, bootstrap: str, rate: float) -> None:
        """Begin at once; a subclass has set its fields before."""
        self.failures: list[str] = []
        self.count = 0
        """The numbers that were written."""
        self.producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "delivery.timeout.ms": 120_000,
                "log_level": 0,
            }
        )
        self._rate = rate
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="feeder")
        self._thread.start()

    def write(self, number: int) -> None:
        """Produce the record of a number, with `on_delivery`."""
        raise NotImplementedError

    def on_delivery(self, error: Any, message: Any) -> None:
        """Note a record that is not acknowledged."""
        if error is not None:
            self.failures.append(str(error))

    def end(self) -> None:
        """Stop; all that was written is acknowledged."""
        self._stopped.set()
        self._thread.join(150)
        assert not self._thread.is_alive()
        assert self.failures == []

    def _run(self) -> None:
        start = time.monotonic()
        while not self._stopped.wait(0.02):
            while self.count < (time.monotonic() - start) * self._rate:
                self.write(self.count)
                self.count += 1
            self.producer.poll(0)
        if self.producer.flush(130):
            self.failures.append("not all was acknowledged")
