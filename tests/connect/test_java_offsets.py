"""The offsets file of Kafka's standalone worker, as Java 17 writes it."""

from base64 import b64decode
from contextlib import suppress

import pytest

from minikafka.connect.java_offsets import NoOffsetsFile, read_java_offsets

WRITTEN = b64decode(
    "rO0ABXNyABFqYXZhLnV0aWwuSGFzaE1hcAUH2sHDFmDRAwACRgAKbG9hZEZhY3RvckkACXRocmVzaG9sZHhwP0AAAAAA"
    "AAx3CAAAABAAAAAEdXIAAltCrPMX+AYIVOACAAB4cAAAAB5bImxpbmVzIix7ImZpbGVuYW1lIjoiYi50eHQifV11cQB+"
    "AAIAAAAOeyJwb3NpdGlvbiI6M311cQB+AAIAAAAYWyJvcmRlcnMiLHsidGFibGUiOiJvIn1ddXEAfgACAAAAEnsiaW5j"
    "cmVtZW50aW5nIjo3fXVxAH4AAgAAAB5bImxpbmVzIix7ImZpbGVuYW1lIjoiYS50eHQifV11cQB+AAIAAAAQeyJwb3Np"
    "dGlvbiI6MTE3fXVxAH4AAgAAAAtbImdvbmUiLHt9XXB4"
)
"""ObjectOutputStream.writeObject of a HashMap: two offsets of `lines`, one of `orders`, a null."""


def test_offsets_are_read_by_connector_and_removed_ones_are_not() -> None:
    assert read_java_offsets(WRITTEN) == {
        "lines": [
            {"partition": {"filename": "a.txt"}, "offset": {"position": 117}},
            {"partition": {"filename": "b.txt"}, "offset": {"position": 3}},
        ],
        "orders": [{"partition": {"table": "o"}, "offset": {"incrementing": 7}}],
    }


def test_a_value_that_java_wrote_once_may_be_referred_to_again() -> None:
    # Handles: the class of the map, the map, the class of arrays, then each array in turn.
    again = WRITTEN.replace(
        bytes([0x75, 0x71]) + b"\x00\x7e\x00\x02\x00\x00\x00\x12" + b'{"incrementing":7}',
        bytes([0x71]) + b"\x00\x7e\x00\x04",
    )
    assert read_java_offsets(again)["orders"][0]["offset"] == {"position": 3}


@pytest.mark.parametrize("length", range(0, len(WRITTEN) - 1, 7))
def test_a_file_that_is_cut_off_is_refused(length: int) -> None:
    with pytest.raises(NoOffsetsFile):
        read_java_offsets(WRITTEN[:length])


@pytest.mark.parametrize("at", range(len(WRITTEN)))
def test_a_byte_that_is_wrong_never_does_more_than_refuse(at: int) -> None:
    for byte in (0x00, 0x70, 0x71, 0x73, 0xFF):
        changed = bytearray(WRITTEN)
        changed[at] = byte
        with suppress(NoOffsetsFile):
            read_java_offsets(bytes(changed))
