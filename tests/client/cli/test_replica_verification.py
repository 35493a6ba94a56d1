"""`replica-verification`: how replicas are compared, and what is printed of it."""

import re
from collections.abc import Iterable, Mapping

import pytest

from minikafka.client.admin.replica_types import ReplicaRead
from minikafka.client.cli.replica_comparison import Comparison, Lag
from minikafka.client.offsets import ListedOffset
from minikafka.protocol.errors import ApiError, ErrorCode
from minikafka.protocol.records.record_batch import NewRecord, build, read_header
from minikafka.protocol.types import TopicPartition

from .conftest import Run
from .fake_admin import FakeAdmin

V0, V1 = TopicPartition("v", 0), TopicPartition("v", 1)
VERIFY = ("replica-verification", "--broker-list", "localhost:9092", "--report-interval-ms", 0)
DOWN = ApiError(ErrorCode.NETWORK_EXCEPTION, "connection refused")
OUT = ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)


def batch(offset: int, *values: bytes) -> bytes:
    return bytes(build([NewRecord(1000, None, value) for value in values], base_offset=offset))


def crc_of(data: bytes) -> int:
    return int(read_header(data).crc)


ONE, TWO, OTHER = batch(0, b"a", b"b"), batch(2, b"c"), batch(2, b"d")


def read(*batches: bytes, end: int = 3) -> ReplicaRead:
    return ReplicaRead(end, b"".join(batches))


# -- comparing


def test_equal_replicas_are_compared_to_the_end_of_the_shortest() -> None:
    comparison = Comparison({V0: 0})
    reads = {1: read(ONE, TWO), 2: read(ONE, end=2)}
    assert comparison.compare(V0, reads) == []
    assert comparison.lag(V0, reads) == Lag(1, V0, 2)
    reads = {1: read(TWO), 2: read(TWO)}
    assert comparison.compare(V0, reads) == []
    assert comparison.lag(V0, reads) == Lag(0, V0, 3)


def test_a_batch_that_is_cut_off_is_compared_next_time() -> None:
    comparison = Comparison({V0: 0})
    assert comparison.compare(V0, {1: read(ONE, TWO), 2: read(ONE, TWO[:-1])}) == []
    assert comparison.offsets == {V0: 2}


def test_other_records_at_an_offset_are_told_in_kafkas_words() -> None:
    comparison = Comparison({V0: 0})
    (found,) = comparison.compare(V0, {1: read(ONE, TWO), 2: read(ONE, OTHER)})
    assert found == (
        f"partition v-0 has unmatched checksum at offset 2; replica 1's checksum {crc_of(TWO)}; "
        f"replica 2's checksum {crc_of(OTHER)}",
        False,
    )
    assert comparison.offsets == {V0: 3}, "it goes on behind them"


def test_batches_that_end_elsewhere_end_the_comparison() -> None:
    comparison = Comparison({V0: 0})
    (found,) = comparison.compare(V0, {1: read(ONE), 2: read(batch(0, b"a"))})
    assert found == ("partition v-0: replica 2's offset 0 doesn't match replica 1's offset 1", True)
    assert comparison.offsets == {V0: 0}


def test_bytes_that_do_not_match_their_own_checksum_are_told() -> None:
    """The header's checksum is right on both, the bytes of one are not."""
    rotten = ONE[:-1] + bytes([ONE[-1] ^ 1])
    comparison = Comparison({V0: 0})
    (found,) = comparison.compare(V0, {1: read(ONE), 2: read(rotten)})
    assert found == (
        "partition v-0: replica 2's batch at offset 1 is damaged: its bytes don't match its "
        f"checksum {crc_of(ONE)}",
        False,
    )


def test_nothing_is_compared_beyond_a_replica_that_cannot_be_read() -> None:
    comparison = Comparison({V0: 0})
    assert comparison.compare(V0, {1: read(ONE), 2: DOWN}) == []
    assert comparison.compare(V0, {1: DOWN, 2: DOWN}) == []
    assert comparison.compare(V0, {}) == []
    assert comparison.lag(V0, {1: read(ONE), 2: DOWN}) == Lag(3, V0, 0)


# -- the command


class Ended(KeyboardInterrupt):
    """There is nothing more to read: as if Ctrl-C was pressed."""


class Reading(FakeAdmin):
    """Reads give `rounds`, one after the other."""

    def __init__(self) -> None:
        super().__init__()
        self.rounds: list[dict[TopicPartition, dict[int, ReplicaRead | ApiError]]] = []
        self.asked_for: list[list[tuple[TopicPartition, int]]] = []
        self.listed: dict[int, int] = {-1: 0, -2: 0}

    async def list_offsets(
        self, wanted: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, ListedOffset]:
        return {one: ListedOffset(self.listed[when], -1, 0) for one, when in wanted.items()}

    async def read_replicas(
        self,
        offsets: Mapping[TopicPartition, int],
        replicas: Mapping[TopicPartition, Iterable[int]],
        *,
        max_bytes: int,
        max_wait_ms: int,
    ) -> dict[TopicPartition, dict[int, ReplicaRead | ApiError]]:
        assert max_bytes == 1024 * 1024
        assert max_wait_ms == 1000
        self.asked_for.append(list(offsets.items()))
        if not self.rounds:
            raise Ended
        return self.rounds.pop(0)


@pytest.fixture
def reading(monkeypatch: pytest.MonkeyPatch) -> Reading:
    fake = Reading()
    fake.placement = {V0: (1, 2), V1: (1, 2), TopicPartition("w", 0): (1,)}
    monkeypatch.setattr("minikafka.client.admin.admin.Admin", fake)
    return fake


def timeless(out: str) -> list[str]:
    """The lines, each of which begins with the time."""
    return [
        re.sub(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}: ", "", line) for line in out.splitlines()
    ]


def test_the_largest_lag_is_printed_as_by_kafkas_tool(run: Run, reading: Reading) -> None:
    reading.rounds = [
        {V0: {1: read(ONE), 2: read(ONE)}, V1: {1: read(TWO, end=5), 2: read(TWO, end=4)}},
    ]
    code, out, err = run(*VERIFY, "--topics-include", "v", "--time", -2)
    assert (code, err) == (130, "")
    assert timeless(out) == [
        "verification process is started",
        "max lag is 2 for partition v-1 at offset 3 among 2 partitions",
    ]
    assert reading.asked_for == [[(V0, 0), (V1, 0)], [(V1, 3), (V0, 2)]], "others come first"


def test_what_differs_is_printed_and_ends_it_with_exit_code_1(run: Run, reading: Reading) -> None:
    reading.rounds = [{V0: {1: read(ONE), 2: read(batch(0, b"a"))}}]
    code, out, err = run(*VERIFY, "--topics-include", "v")
    assert (code, err) == (1, "")
    assert timeless(out)[-1] == (
        "partition v-0: replica 2's offset 0 doesn't match replica 1's offset 1"
    )


def test_a_broker_that_is_down_is_told_once(run: Run, reading: Reading) -> None:
    lost: dict[TopicPartition, dict[int, ReplicaRead | ApiError]] = {
        V0: {1: read(ONE), 2: DOWN},
        V1: {1: read(), 2: DOWN},
    }
    reading.rounds = [lost, lost]
    _, _, err = run(*VERIFY, "--topics-include", "v")
    assert err == "replicas of broker 2 cannot be read: connection refused\n"


def test_it_goes_on_with_what_retention_has_left(run: Run, reading: Reading) -> None:
    """A follower alone that is out of range is behind; all are where the log's begin went past."""
    behind: dict[TopicPartition, dict[int, ReplicaRead | ApiError]] = {
        V0: {1: read(), 2: OUT},
        V1: {1: OUT, 2: OUT},
    }
    reading.rounds = [behind]
    reading.listed[-2] = 40
    _, _, err = run(*VERIFY, "--topics-include", "v")
    assert err == ""
    assert reading.asked_for[1] == [(V1, 40), (V0, 0)]


def test_a_time_after_the_last_record_begins_at_the_end(run: Run, reading: Reading) -> None:
    reading.listed |= {1_700_000_000_000: -1, -1: 7}
    run(*VERIFY, "--topics-include", "w", "--time", 1_700_000_000_000)
    assert reading.asked_for == [[(TopicPartition("w", 0), 7)]]


@pytest.mark.parametrize(
    ("flags", "code", "words"),
    [
        (("--topics-include", "nowhere"), 1, "--topics-include nowhere matches none"),
        (("--topics-include", "("), 2, "is no regular expression"),
        (("--time", "-3"), 2, "'--time': -3 is not in the range"),
        (("--fetch-size", "0"), 2, "'--fetch-size': 0 is not in the range"),
    ],
)
def test_flags_that_cannot_be(
    run: Run, reading: Reading, flags: tuple[str, ...], code: int, words: str
) -> None:
    done, out, err = run(*VERIFY, *flags)
    assert (done, out) == (code, "")
    assert words in err
