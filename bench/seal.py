"""The cost of a sealed control plane: a heartbeat, a frame and a handshake, each at both ends.

Rounds without and with a seal take turns, and a ratio is the median of those within each pair.
"""

import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from minikafka.protocol.control.frames import decode_frame, encode_body
from minikafka.protocol.control.heartbeat import Heartbeat, decode_heartbeat, encode_heartbeat
from minikafka.protocol.control.messages import BrokerHeartbeat, MetadataFetched
from minikafka.security.control_seal import (
    DatagramGuards,
    Key,
    Offering,
    Seal,
    accept,
    datagram_tag,
)

ROUNDS = 15
CALLS = 2_000
BYTES = 60_000_000
"""The most bytes of frames in a round."""
SIZES = (("1 KB", 1_000), ("64 KB", 64_000), ("1 MB", 1_000_000))
KEYS = (Key.of(bytes(32)),)
DICE = bytes(32)

Call = Callable[[], object]


class Cost(NamedTuple):
    """Microseconds to send and to receive one, without a seal and with it."""

    what: str
    us_without: float
    us_with: float
    ratio: float


def measure() -> list[Cost]:
    """Measure everything in this process."""
    requests = [("a BrokerHeartbeat", BrokerHeartbeat(1, 7, 1234, False, False))]
    requests += [
        (f"{name} of metadata", MetadataFetched(0, records=bytes(size)))  # type: ignore[misc]
        for name, size in SIZES
    ]
    return [
        _cost("a heartbeat (UDP)", _datagrams(None), _datagrams(bytes(32)), CALLS),
        *(
            _cost(name, _frames(message, None), _frames(message, agreed()), _count(message))
            for name, message in requests
        ),
    ]


def handshake_us() -> float:
    """Return the microseconds of one handshake, both ends together, without the network."""
    return statistics.median(_timed(agreed, 200) for _ in range(ROUNDS)) * 1e6


def agreed() -> tuple[Seal, Seal]:
    """Return the seals of both ends of one session."""
    offering = Offering(KEYS, DICE)
    accepted = accept(KEYS, offering.offer, DICE)
    assert accepted is not None
    return offering.on_accepted(accepted[0]), accepted[1]


def _datagrams(key: bytes | None) -> Call:
    guards = DatagramGuards(is_required=False)
    guards.on_session(1, key)
    sequence = 0

    def pass_one() -> None:
        nonlocal sequence
        sequence += 1
        heartbeat = Heartbeat("AAAAAAAAAAAAAAAAAAAAAA", 1, 7, DICE[:16], sequence)
        tag_of = None if key is None else lambda content: datagram_tag(key, content)
        assert guards.admits(decode_heartbeat(encode_heartbeat(heartbeat, tag_of)))

    return pass_one


def _frames(message: object, seals: tuple[Seal, Seal] | None) -> Call:
    def pass_plain() -> None:
        decode_frame(memoryview(encode_body(1, message)))

    def pass_sealed() -> None:
        assert seals is not None
        sender, receiver = seals
        decode_frame(receiver.open(memoryview(sender.close(encode_body(1, message)))))

    return pass_plain if seals is None else pass_sealed


def _count(message: object) -> int:
    return max(10, min(CALLS, BYTES // len(encode_body(1, message))))


def _cost(what: str, plain: Call, sealed: Call, calls: int) -> Cost:
    rounds = [(_timed(plain, calls), _timed(sealed, calls)) for _ in range(ROUNDS)]
    without, with_seal = (statistics.median(each) * 1e6 for each in zip(*rounds, strict=True))
    ratio = statistics.median(sealed / plain for plain, sealed in rounds)
    return Cost(what, without, with_seal, ratio)


def _timed(call: Call, calls: int) -> float:
    """Return the CPU seconds of one call, as the mean of so many."""
    started = time.process_time()
    for _ in range(calls):
        call()
    return (time.process_time() - started) / calls


def section(results: dict[str, Any]) -> list[str]:
    """Write the section of the page, if the seal was measured."""
    found = results.get("seal")
    if found is None:
        return []
    return [
        "",
        "## Sealed control plane",
        "",
        "CPU to encode and decode one at both ends together, without a seal and with it.",
        "",
        "| what | us without | with | ratio |",
        "|---|---|---|---|",
        *(
            f"| {cost['what']} | {cost['us_without']:.1f} | {cost['us_with']:.1f} "
            f"| {cost['ratio']:.2f} |"
            for cost in found["costs"]
        ),
        "",
        f"A handshake, once for each connection, takes {found['handshake_us']:.0f} us in all.",
    ]
