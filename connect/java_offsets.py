"""Reads the offsets file of Kafka's standalone worker: a serialised HashMap of byte arrays.

Nothing else that Java can serialise is read, and no class is loaded (FileOffsetBackingStore; Java
Object Serialization Specification, 6.4).
"""

import json
from struct import Struct
from struct import error as StructError
from typing import Any, Final

from ..runtime.errors import MinikafkaError

HEADER: Final = bytes.fromhex("aced0005")
NULL, REFERENCE, CLASS, OBJECT, ARRAY, BLOCK, END = 0x70, 0x71, 0x72, 0x73, 0x75, 0x77, 0x78
FIRST_HANDLE: Final = 0x7E0000
_SHORT, _INT = Struct(">H"), Struct(">i")


class NoOffsetsFile(MinikafkaError):
    """These bytes are not the offsets file of a standalone worker."""


def read_java_offsets(data: bytes) -> dict[str, list[dict[str, Any]]]:
    """Return by connector its [{partition, offset}], sorted; removed offsets are left out.

    Raise NoOffsetsFile if this is no file of offsets.
    """
    found: dict[str, list[dict[str, Any]]] = {}
    try:
        for key, value in _Reader(data).entries():
            name, partition = json.loads(key or b"")
            if value is not None:
                one = {"partition": partition, "offset": json.loads(value)}
                found.setdefault(str(name), []).append(one)
    except (ValueError, TypeError, StructError, IndexError, RecursionError) as error:
        raise NoOffsetsFile(
            f"this is no offsets file of Kafka's standalone worker: {error}"
        ) from None
    return {name: sorted(found[name], key=str) for name in sorted(found)}


class _Reader:
    """Reads one map; it numbers what it meets as Java does, because arrays refer to classes."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self._met: list[bytes | str] = []

    def entries(self) -> list[tuple[bytes | None, bytes | None]]:
        """Return the keys and values of the map."""
        self._expect(self._take(4) == HEADER, "the header is missing")
        self._expect(self._byte() == OBJECT, "it holds no object")
        self._class("java.util.HashMap")
        self._met.append("the map")
        self._take(8)  # load factor and threshold
        self._expect(self._take(2) == bytes((BLOCK, 8)), "the map has no size")
        self._take(4)
        size = self._int()
        self._expect(0 <= size <= len(self._data), f"a map of {size} entries")
        return [(self._bytes(), self._bytes()) for _ in range(size)]

    def _class(self, name: str) -> None:
        """Read the description of a class, or the reference to one, and check its name."""
        tag = self._byte()
        if tag == REFERENCE:
            self._expect(self._referred() == name, f"where {name} belongs is something else")
            return
        self._expect(tag == CLASS and self._text() == name, f"it has no {name}")
        self._met.append(name)
        self._take(9)  # the serial version, and flags
        for _ in range(_SHORT.unpack(self._take(2))[0]):
            self._expect(chr(self._byte()) in "BCDFIJSZ", f"{name} has unknown fields")
            self._text()
        self._expect(self._take(2) == bytes((END, NULL)), f"{name} has a class above it")

    def _bytes(self) -> bytes | None:
        tag = self._byte()
        if tag == NULL:
            return None
        if tag == REFERENCE:
            met = self._referred()
            self._expect(isinstance(met, bytes), "an entry is no byte array")
            return met if isinstance(met, bytes) else None
        self._expect(tag == ARRAY, "an entry is no byte array")
        self._class("[B")
        size = self._int()
        self._expect(size >= 0, "an array of negative length")
        self._met.append(self._take(size))
        return self._data[self._at - size : self._at]

    def _referred(self) -> bytes | str:
        return self._met[self._int() - FIRST_HANDLE]

    def _text(self) -> str:
        return self._take(_SHORT.unpack(self._take(2))[0]).decode()

    def _int(self) -> int:
        return int(_INT.unpack(self._take(4))[0])

    def _byte(self) -> int:
        return self._take(1)[0]

    def _take(self, size: int) -> bytes:
        self._at += size
        self._expect(self._at <= len(self._data), "it ends too early")
        return self._data[self._at - size : self._at]

    @staticmethod
    def _expect(is_so: bool, why: str) -> None:
        if not is_so:
            raise ValueError(why)
