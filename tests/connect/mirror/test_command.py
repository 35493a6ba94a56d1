"""`minikafka mirror` as a process that is killed: with exactly once each record comes once."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from minikafka.aio import Admin, Consumer, NewTopic, Producer, TopicPartition
from minikafka.client.errors import AdminError, ClientError

from ...support.cluster import running_cluster

pytestmark = [pytest.mark.slow, pytest.mark.processes]
COUNT = 3_000
ALONE = {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}


@contextmanager
def mirror(directory: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """Run the command once it is ready; its log is in the directory."""
    reading, writing = os.pipe()
    command = [sys.executable, "-m", "minikafka", "mirror", str(directory / "mm2.properties")]
    with (directory / "log").open("ab") as log:
        process = subprocess.Popen(
            [*command, "--ready-fd", str(writing)],
            stdout=log,
            stderr=log,
            pass_fds=(writing,),
        )
    os.close(writing)
    try:
        with os.fdopen(reading, "rb") as ready:
            assert b'"A->B"' in ready.readline(), (directory / "log").read_text()[-3000:]
        yield process
    finally:
        process.kill()
        process.wait()


async def until_mirrored(bootstrap: str, count: int) -> None:
    async with Admin(bootstrap) as admin, asyncio.timeout(60):
        while True:
            try:
                end = await admin.list_offsets({TopicPartition("A.t", 0): -1})
            except (AdminError, ClientError):
                end = {}
            if sum(each.offset for each in end.values()) >= count:
                return
            await asyncio.sleep(0.05)


async def write(bootstrap: str, first: int) -> None:
    async with Producer(bootstrap) as producer:
        for number in range(first, first + COUNT):
            producer.send("t", b"%d" % number, partition=0)
        await producer.flush()


async def test_a_mirror_that_is_killed_writes_each_record_once(tmp_path: Path) -> None:
    with (
        running_cluster(tmp_path / "a", broker_settings=ALONE) as a,
        running_cluster(tmp_path / "b", broker_settings=ALONE) as b,
    ):
        factors = [
            *("offset-syncs.topic", "checkpoints.topic"),
            *("config.storage", "offset.storage", "status.storage"),
        ]
        (tmp_path / "mm2.properties").write_text(
            f"""clusters = A, B
            A.bootstrap.servers = {a.bootstrap}
            B.bootstrap.servers = {b.bootstrap}
            A->B.enabled = true
            A.consumer.isolation.level = read_committed
            B.exactly.once.source.support = enabled
            emit.heartbeats.enabled = false
            replication.factor = 1
            """
            + "".join(f"{each}.replication.factor = 1\n" for each in factors)
        )
        async with Admin(a.bootstrap) as admin:
            await admin.create_topics([NewTopic("t", 1, 1)])
        await write(a.bootstrap, 0)
        with mirror(tmp_path) as process:
            await until_mirrored(b.bootstrap, 1)
            await write(a.bootstrap, COUNT)
            process.kill()
        with mirror(tmp_path) as process:
            await write(a.bootstrap, 2 * COUNT)
            async with (
                Consumer(
                    b.bootstrap, auto_offset_reset="earliest", isolation_level="read_committed"
                ) as consumer,
                asyncio.timeout(60),
            ):
                await consumer.subscribe(["A.t"])
                values: list[bytes | None] = []
                while len(values) < 3 * COUNT:
                    values += [each.value for each in await consumer.poll(1000)]
            process.terminate()
            assert process.wait(30) == 0
    assert values == [b"%d" % number for number in range(3 * COUNT)]
