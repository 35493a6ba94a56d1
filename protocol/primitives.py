"""Reads and writes variable-length integers, the primitives that `struct` does not know.

Unsigned varint: seven bits a byte, low bits first, the high bit set on all but the last.
Signed varints map 0, -1, 1, -2, 2 ... to 0, 1, 2, 3, 4 (zigzag). Source: Kafka protocol guide,
"Protocol Primitive Types". Reading raises IndexError at the buffer's end and ValueError
when a number is longer than its type; `codec` turns both into RemoteProtocolError.
"""

from .types import Buffer

MAX_UVARINT_BYTES = 5
MAX_VARLONG_BYTES = 10


def encode_uvarint(value: int) -> bytes:
    """Encode an unsigned varint; a value of 32 bits takes 1 to 5 bytes."""
    if value < 0x80:
        return value.to_bytes(1, "big")
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_uvarint(buf: Buffer, pos: int) -> tuple[int, int]:
    """Read an unsigned 32-bit varint at `pos`; return the value and the position after it."""
    first = buf[pos]
    if first < 0x80:
        return first, pos + 1
    return continue_uvarint(buf, pos + 1, first)


def continue_uvarint(buf: Buffer, pos: int, first: int) -> tuple[int, int]:
    """Read the rest, from `pos` on, of an unsigned varint whose first byte is `first`.

    Raise ValueError if it is longer than 5 bytes or does not fit 32 bits.
    """
    value = first & 0x7F
    shift = 7
    while True:
        byte = buf[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift >= 7 * MAX_UVARINT_BYTES:
            raise ValueError("varint is longer than 5 bytes")
    if value > 0xFFFF_FFFF:
        raise ValueError("varint does not fit 32 bits")
    return value, pos


def encode_varint(value: int) -> bytes:
    """Encode a signed (zigzag) varint; a value of 64 bits takes 1 to 10 bytes."""
    zigzag = value << 1 if value >= 0 else (-value << 1) - 1
    return encode_uvarint(zigzag)


def read_varint(buf: Buffer, pos: int) -> tuple[int, int]:
    """Read a signed (zigzag) varint of up to 64 bits at `pos`; return value and next position.

    Raise ValueError if it is longer than 10 bytes.
    """
    value = shift = 0
    while True:
        byte = buf[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift >= 7 * MAX_VARLONG_BYTES:
            raise ValueError("varint is longer than 10 bytes")
    return (value >> 1) ^ -(value & 1), pos
