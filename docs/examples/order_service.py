"""An order service: payments have a time limit, billing retries, what fails for good is requeued.

    minikafka up --port 9092
    python docs/examples/order_service.py localhost:9092

Each order parks a record in a delay topic, which comes back when the order is not paid in time; a
payment cancels it. Billing calls a provider that is down at first, so it tries again later. One
payment is in a currency that nobody knows: it becomes a dead letter, is handled again once its rate
is there, and at the end the cluster tells the life of the record that came back.
"""

import json
import queue
import subprocess
import sys
import threading
import time

from minikafka import (
    Admin,
    AdminError,
    Consumer,
    ConsumerRecord,
    ErrorCode,
    NewTopic,
    Producer,
    RetryPolicy,
    TopicPartition,
)

TOPICS = ("payments", "timeouts")
LIMITS = "time-limits"
"""The delay topic of `timeouts`."""
RATES = {"EUR": 1.0, "USD": 0.9}
POLICY = RetryPolicy(backoff_ms=(300, 1_000, 3_000), not_retried=(KeyError,))
Record = ConsumerRecord[bytes, bytes]


class Shop:
    """Takes orders and payments."""

    def __init__(self, servers: str) -> None:
        self.servers = servers
        self.admin = Admin(servers)
        self.producer = Producer(servers)
        self.news: queue.Queue[str] = queue.Queue()
        """What happens, in words."""
        self.calls_until_up = 3

    def create_topics(self) -> None:
        """Create what is not there."""
        topics = [NewTopic(name, 1) for name in TOPICS]
        topics.append(NewTopic(LIMITS, 1, configs={"minikafka.delay.target": "timeouts"}))
        for topic in topics:
            try:
                self.admin.create_topics([topic])
            except AdminError as error:
                if error.errors[topic.name].code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                    raise

    def order(self, name: str, pay_within_ms: int) -> int:
        """Take an order; return the offset at which its time limit is parked."""
        limit = [("minikafka-delay-ms", str(pay_within_ms).encode())]
        parked = self.producer.send(LIMITS, b"not paid in time", name.encode(), headers=limit)
        return parked.result(timeout=30).offset

    def pay(self, name: str, parked: int, amount: int, currency: str) -> None:
        """Take a payment."""
        payment = {"amount": amount, "currency": currency, "parked": parked}
        self.producer.send("payments", json.dumps(payment).encode(), name.encode())

    def bill(self, record: Record) -> None:
        """Bill a payment, and cancel its time limit; what is raised is a failure."""
        name, payment = (record.key or b"").decode(), json.loads(record.value or b"")
        euros = payment["amount"] * RATES[payment["currency"]]
        if name == "coffee" and self.calls_until_up > 0:
            self.calls_until_up -= 1
            self.news.put(f"{name}: the provider is down")
            raise ConnectionError("the provider is down")
        # To cancel twice does no harm, so it does not matter that this may be called again.
        try:
            self.admin.cancel_delayed({TopicPartition(LIMITS, 0): [payment["parked"]]})
        except AdminError as error:
            (why,) = error.errors.values()
            if why.code is not ErrorCode.INVALID_RECORD_STATE:
                raise
            self.news.put(f"{name}: paid too late, {euros:.2f} EUR go back")
        else:
            self.news.put(f"{name}: billed {euros:.2f} EUR")

    def billing(self, stopping: threading.Event) -> None:
        """Handle payments."""
        with (
            Consumer(
                self.servers,
                group_id="billing",
                auto_offset_reset="earliest",
                enable_auto_commit=False,
            ) as consumer,
            consumer.with_retries(POLICY) as worker,
        ):

            def stop() -> None:
                stopping.wait()
                worker.stop()

            threading.Thread(target=stop).start()
            worker.subscribe(["payments"])
            worker.run(self.bill)

    def time_limits(self, stopping: threading.Event) -> None:
        """Cancel orders that are not paid in time."""
        with Consumer(
            self.servers, group_id="time-limits", auto_offset_reset="earliest"
        ) as consumer:
            consumer.subscribe(["timeouts"])
            while not stopping.is_set():
                for record in consumer.poll(timeout_ms=500):
                    self.news.put(
                        f"{(record.key or b'').decode()}: {(record.value or b'').decode()}"
                    )

    def wait_for(self, *ends: str) -> None:
        """Print what happens, until these have happened."""
        left = [*ends]
        deadline = time.monotonic() + 60
        while left:
            line = self.news.get(timeout=max(0.0, deadline - time.monotonic()))
            print(line, flush=True)
            left = [end for end in left if not line.startswith(end)]


def minikafka(servers: str, *arguments: str) -> None:
    """Run a command, as one would in a shell."""
    print("\n$ minikafka", *arguments, flush=True)
    command = [sys.executable, "-m", "minikafka", *arguments, "--bootstrap-server", servers]
    subprocess.run(command, check=True)


def main(servers: str) -> None:
    """Play the day of a shop."""
    shop = Shop(servers)
    shop.create_topics()
    stopping = threading.Event()
    threads = [
        threading.Thread(target=serve, args=(stopping,))
        for serve in (shop.billing, shop.time_limits)
    ]
    for thread in threads:
        thread.start()
    try:
        shop.pay("tea", shop.order("tea", 60_000), 12, "EUR")
        shop.pay("coffee", shop.order("coffee", 60_000), 10, "USD")
        shop.pay("salt", shop.order("salt", 60_000), 3, "XAU")
        unpaid = shop.order("milk", 1_500)
        shop.wait_for("tea: billed", "coffee: billed", "milk: not paid")
        minikafka(servers, "dlq", "list", "dlq.billing")
        RATES["XAU"] = 3_500.0
        minikafka(servers, "dlq", "requeue", "dlq.billing", "--where", "exception~KeyError")
        shop.wait_for("salt: billed")
        minikafka(servers, "trace", LIMITS, "0", str(unpaid))
    finally:
        stopping.set()
        for thread in threads:
            thread.join()
        shop.producer.close()
        shop.admin.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
