"""A delay topic while everything is killed: each record is forwarded once, none early (R-08).

    python -m tests.system.delayed --minutes 10 [--seed 7]

An idempotent and a transactional producer park 200 records a second with random times; some
transactions abort. Meanwhile leaders of the delay topic and of its target, alone and both at once,
coordinators of transactions and the active one of three controllers are killed with kill -9, in an
order that the seed gives. At the end what is in the target is compared with what was parked. How
late the records came is told, not judged. The report is JSON; where something is wrong, it says
what, the exit code is 1, and logs and data stay in the directory that it names.
"""

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import confluent_kafka

from minikafka import Admin, Consumer, NewTopic, TopicPartition
from minikafka.protocol.delays import DELIVER_AT, DUE

from ..support.cluster import Cluster, Daemon, running_cluster, wait_until

PARKED, TARGET, TRANSACTIONS = "parked", "due", "__transaction_state"
PARTITIONS = 3
RATE = 100
"""Records a second, of each producer."""
LATEST_MS = 15_000
"""The longest delay."""
IN_TRANSACTION = 25
CONTROLLER, BOTH = "active controller", "leaders of both"
VICTIMS = (PARKED, PARKED, TARGET, TARGET, BOTH, TRANSACTIONS, CONTROLLER)
DONE_WITHIN_S = 180
SETTINGS = {"transaction.state.log.num.partitions": "3"}


class Parker:
    """Parks records at a steady rate until it is told to stop."""

    def __init__(self, bootstrap: str, seed: int, transactional_id: str | None) -> None:
        self.parked: list[bytes] = []
        """The values that are parked for certain."""
        self.aborted = 0
        """The records of transactions that were aborted for certain."""
        self.failures: list[str] = []
        self._name = transactional_id or "plain"
        self._is_transactional = transactional_id is not None
        self._dice = random.Random(f"{self._name} {seed}")
        transactional = {"transactional.id": transactional_id, "transaction.timeout.ms": 150_000}
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "delivery.timeout.ms": 120_000,
                "log_level": 0,
                **(transactional if transactional_id else {}),
            }
        )
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        self._thread.start()

    def stop(self) -> list[bytes]:
        """End, and give what is parked."""
        self._stopped.set()
        self._thread.join(200)
        assert not self._thread.is_alive()
        assert self.failures == []
        return self.parked

    def _run(self) -> None:
        try:
            if self._is_transactional:
                self._until_done(lambda: self._producer.init_transactions(60))
            start, number = time.monotonic(), 0
            while not self._stopped.wait(0.02):
                wanted = round((time.monotonic() - start) * RATE)
                if self._is_transactional:
                    if wanted - number >= IN_TRANSACTION:
                        self._transact(range(number, number + IN_TRANSACTION))
                        number += IN_TRANSACTION
                else:
                    for one in range(number, wanted):
                        self._park(one, self._on_delivery)
                    number = max(number, wanted)
                    self._producer.poll(0)
            if self._producer.flush(130):
                self.failures.append("not all was acknowledged")
        except Exception as error:
            self.failures.append(repr(error))

    def _park(self, number: int, on_delivery: Callable[[Any, Any], None] | None) -> bytes:
        value = f"{self._name} {number}".encode()
        due = round(time.time() * 1000) + self._dice.randrange(LATEST_MS)
        self._producer.produce(
            PARKED, value, key=value, headers={DELIVER_AT: str(due)}, on_delivery=on_delivery
        )
        return value

    def _on_delivery(self, error: Any, message: Any) -> None:
        if error is not None:
            self.failures.append(str(error))
        else:
            self.parked.append(message.value())

    def _transact(self, numbers: range) -> None:
        """Park in a transaction, which is aborted now and then."""
        is_kept = self._dice.random() < 0.8
        self._producer.begin_transaction()
        values = [self._park(number, None) for number in numbers]
        if is_kept and self._until_done(lambda: self._producer.commit_transaction(60)):
            self.parked.extend(values)
        else:
            if not is_kept:
                self._until_done(lambda: self._producer.abort_transaction(60))
            self.aborted += len(values)

    def _until_done(self, call: Callable[[], None]) -> bool:
        """Call until it succeeds; return False if the transaction had to be aborted instead."""
        deadline = time.monotonic() + 150
        while True:
            try:
                call()
            except confluent_kafka.KafkaException as failed:
                error = failed.args[0]
                if error.txn_requires_abort():
                    self._until_done(lambda: self._producer.abort_transaction(60))
                    return False
                if not error.retriable() or time.monotonic() > deadline:
                    raise
            else:
                return True


class Killer:
    """Kills and brings back; all replicas are in sync before the next one is killed."""

    def __init__(self, cluster: Cluster, admin: Admin, seed: int) -> None:
        self.killed: Counter[str] = Counter()
        self._cluster = cluster
        self._admin = admin
        self._dice = random.Random(seed)

    def run(self, seconds: float) -> None:
        """Kill for so long."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            time.sleep(self._dice.uniform(0.5, 2.0))
            what = self._dice.choice(VICTIMS)
            self.killed[what] += 1
            self._kill(self._victims(what))

    def _victims(self, what: str) -> list[Daemon]:
        if what == CONTROLLER:
            active = self._admin.describe_metadata_quorum().leader_id
            return [one for one in self._cluster.controllers if one.node_id == active]
        self._wait_for_full_isr()
        topics = (PARKED, TARGET) if what == BOTH else (what,)
        found = self._admin.describe_topics(list(topics))
        ids = [self._dice.choice(found[topic].partitions).leader_id for topic in topics]
        return [self._cluster.broker(each) for each in dict.fromkeys(ids)]

    def _kill(self, victims: list[Daemon]) -> None:
        for each in victims:
            each.signal(signal.SIGKILL)
        for each in victims:
            each.wait()
        time.sleep(self._dice.uniform(0.2, 3))
        for each in victims:
            each.launch()
        for each in victims:
            each.wait_until_ready()

    def _wait_for_full_isr(self) -> None:
        """The next may be killed once what the last one had is everywhere again."""
        wait_until(
            lambda: all(
                partition.leader_id >= 0 and len(partition.isr) == len(partition.replicas)
                for topic in self._admin.describe_topics([PARKED, TARGET, TRANSACTIONS]).values()
                for partition in topic.partitions
            ),
            within_s=60,
        )


def play(directory: Path, seconds: float, seed: int) -> dict[str, Any]:
    """Run everything, check the target, and tell what was killed and how late records came."""
    with (
        running_cluster(directory, brokers=3, controllers=3, broker_settings=SETTINGS) as cluster,
        Admin(cluster.bootstrap) as admin,
    ):
        safe = {"min.insync.replicas": "2"}
        logged = {**safe, "message.timestamp.type": "LogAppendTime"}
        admin.create_topics([NewTopic(TARGET, PARTITIONS, 3, configs=logged)])
        delayed = {**safe, "minikafka.delay.target": TARGET}
        admin.create_topics([NewTopic(PARKED, PARTITIONS, 3, configs=delayed)])
        parkers = [Parker(cluster.bootstrap, seed, name) for name in (None, "transactional")]
        killer = Killer(cluster, admin, seed)
        try:
            wait_until(lambda: all(len(parker.parked) > 100 for parker in parkers), within_s=60)
            killer.run(seconds)
        finally:
            parked = [value for parker in parkers for value in parker.stop()]
        aborted = sum(parker.aborted for parker in parkers)
        late = check(cluster.bootstrap, parked)
    return {
        "records": len(parked),
        "each once, none early": True,
        "records of aborted transactions, none there": aborted,
        "killed": dict(killer.killed),
        "late_ms": {"p50": _at(late, 50), "p99": _at(late, 99), "longest": late[-1]},
    }


def check(bootstrap: str, parked: list[bytes]) -> list[int]:
    """Compare the target with what was parked; return how late each came in ms, sorted."""
    found: Counter[bytes] = Counter()
    late: list[int] = []
    places = [TopicPartition(TARGET, index) for index in range(PARTITIONS)]
    with Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign(places)
        deadline = time.monotonic() + DONE_WITHIN_S
        last_news = time.monotonic()
        while time.monotonic() < deadline:
            records = consumer.poll(timeout_ms=500, max_records=20_000)
            for record in records:
                found[record.value or b""] += 1
                due = int(dict(record.headers)[DUE] or b"")
                late.append(record.timestamp_ms - due)
            if records:
                last_news = time.monotonic()
            # All are there; what comes after the longest delay once more would be a double.
            if len(found) >= len(parked) and time.monotonic() - last_news > 5:
                break
    wanted = Counter(parked)
    assert sum(wanted.values()) == len(wanted)
    missing, surplus = wanted - found, found - wanted
    assert not missing, f"{missing.total()} never came, such as {min(missing)!r}"
    assert not surplus, f"{surplus.total()} too many, such as {min(surplus)!r}"
    assert min(late) >= 0, f"{-min(late)} ms early"
    return sorted(late)


def _at(values: list[int], percent: int) -> int:
    return values[len(values) * percent // 100]


def main() -> None:
    """Play for as long as told."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=None)
    options = parser.parse_args()
    seed = int.from_bytes(os.urandom(4)) if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)
    directory = Path(tempfile.mkdtemp(prefix="minikafka-delayed-"))
    try:
        told = play(directory, options.minutes * 60, seed)
    except AssertionError as error:
        wrong = {"wrong": str(error), "logs and data": str(directory)}
        print(json.dumps({"seed": seed, **wrong}, indent=1))
        sys.exit(1)
    print(json.dumps({"seed": seed, "minutes": options.minutes, **told}, indent=1))
    shutil.rmtree(directory)


if __name__ == "__main__":
    main()
