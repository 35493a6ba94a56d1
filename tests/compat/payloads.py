"""What every client sends: records that catch copies, encodings and lengths that go wrong."""

import random
from typing import NamedTuple

COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")
ACKS = (0, 1, "all")
PARTITIONS = 3


class Payload(NamedTuple):
    partition: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]
    timestamp_ms: int


def payloads(seed: int, count: int = 120) -> list[Payload]:
    rng = random.Random(seed)
    made: list[Payload] = []
    for number in range(count):
        size = rng.choice([0, 1, 10, 100, 1000, 20_000])
        value = rng.randbytes(size) if number % 2 else b"squeeze me " * (size // 11)
        key = None if number % 5 == 0 else b"key-%d" % number
        headers = (("trace", rng.randbytes(8)), ("empty", b"")) if number % 7 == 0 else ()
        made.append(Payload(number % PARTITIONS, key, value, headers, 1_700_000_000_000 + number))
    return made


def by_partition(sent: list[Payload]) -> dict[int, list[Payload]]:
    found: dict[int, list[Payload]] = {partition: [] for partition in range(PARTITIONS)}
    for payload in sent:
        found[payload.partition].append(payload)
    return found
