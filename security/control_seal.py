"""The seal of the control plane: proof of a shared key, then a tag on every frame and datagram.

Owns the handshake of both ends, the keys of a session, the tags, and which datagrams count. Opens
nothing and reads no clock.

    initiator                                           acceptor
    SealOffer(max_version, key ids, nonce) ---------->  the first key of the offer that it holds
                 <---------- SealAccepted(version, key id, nonce)
    Both derive the keys of this session from that key, both nonces and everything that was offered.
    Hello and a tag ---------------------------------->  the tag proves the initiator
                 <---------------------- HelloAnswer and a tag proves the acceptor

A connection is fresh, then sealed, and never goes back. No key travels, and no tag can be used
again: the nonces are new in each session, each direction has a key of its own, and a tag covers the
number of its frame. The tags give authenticity and integrity, and no secrecy.

A datagram's tag has a key of the session too, which only this start of this broker has. A datagram
counts only if its sequence number is above all that counted before.

Sources: RFC 2104 (HMAC), RFC 5869 (HKDF with SHA-256), RFC 7693 (BLAKE2b with a key).
"""

import binascii
import hashlib
import hmac
import struct
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from ..protocol.control.heartbeat import Datagram
from ..protocol.control.messages import SealAccepted, SealOffer
from ..protocol.errors import RemoteProtocolError
from ..protocol.types import Buffer

VERSION: Final = 1
"""The newest version of the handshake and of the tags; a later version keeps the two messages."""
KEY_BYTES_MIN: Final = 32
KEY_BYTES_MAX: Final = 64
KEYS_MAX: Final = 2
"""The most keys at once: the present key, and the one before or after it."""
TAG_BYTES: Final = 16
NONCE_BYTES: Final = 32
OFFERED_MAX: Final = 16
"""The most key ids of an offer that are looked at."""

_KEY_ID_BYTES: Final = 8
_COUNT: Final = struct.Struct(">Q")
_HASH: Final = "sha256"


@dataclass(frozen=True, slots=True)
class Key:
    """A key that all nodes of a cluster share; its id may be seen by anybody."""

    secret: bytes = field(repr=False)
    id: bytes

    @classmethod
    def of(cls, secret: bytes) -> "Key":
        """Make a key; the id is computed from the secret, and does not give it away."""
        return cls(secret, hashlib.blake2b(secret, digest_size=_KEY_ID_BYTES).digest())


Keyring: TypeAlias = tuple[Key, ...]
"""The keys that a process accepts, the preferred one first."""


def keyring_of(text: str) -> Keyring:
    """Read the text of a key file: one key per line in Base64; empty lines and # comments are fine.

    Raise ValueError, which says what is wrong and never repeats a key.
    """
    keys: list[Key] = []
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        try:
            secret = binascii.a2b_base64(line, strict_mode=True)
        except ValueError:
            raise ValueError(f"line {number} is not Base64") from None
        if not KEY_BYTES_MIN <= len(secret) <= KEY_BYTES_MAX:
            sizes = f"{KEY_BYTES_MIN} to {KEY_BYTES_MAX} bytes"
            raise ValueError(f"line {number} is a key of {len(secret)} bytes, not of {sizes}")
        keys.append(Key.of(secret))
    if not 1 <= len(keys) <= KEYS_MAX:
        raise ValueError(f"it has {len(keys)} keys: one, or two while keys change")
    return tuple(keys)


def nonce_of(key: Key, random: bytes) -> bytes:
    """Return a nonce made of random bytes, which says nothing of the generator's state."""
    return hmac.digest(key.secret, b"nonce" + random, _HASH)


class Offering:
    """The initiator's end of one handshake."""

    def __init__(self, keyring: Keyring, random: bytes) -> None:
        """`random` are `NONCE_BYTES` random bytes that are used once."""
        self._keyring = keyring
        self.offer = SealOffer(
            max_version=VERSION,
            key_ids=tuple(key.id for key in keyring),
            nonce=nonce_of(keyring[0], random),
        )

    def on_accepted(self, answer: SealAccepted) -> "Seal":
        """Return the seal that the acceptor chose; raise RemoteProtocolError for a bad choice."""
        key = next((key for key in self._keyring if key.id == answer.key_id), None)
        if key is None or not 1 <= answer.version <= VERSION:
            raise RemoteProtocolError("the peer chose a key or a version that was not offered")
        if len(answer.nonce) != NONCE_BYTES:
            raise RemoteProtocolError(f"a nonce of {len(answer.nonce)} bytes")
        return _seal_of(key, self.offer, answer, initiates=True)


def accept(keyring: Keyring, offer: SealOffer, random: bytes) -> "tuple[SealAccepted, Seal] | None":
    """Choose among what is offered: return the answer and the seal, or None if nothing fits.

    `random` are `NONCE_BYTES` random bytes that are used once.
    """
    held = {key.id: key for key in keyring}
    key = next((held[each] for each in offer.key_ids[:OFFERED_MAX] if each in held), None)
    if key is None or offer.max_version < 1 or len(offer.nonce) != NONCE_BYTES:
        return None
    version = min(offer.max_version, VERSION)
    answer = SealAccepted(0, version=version, key_id=key.id, nonce=nonce_of(key, random))
    return answer, _seal_of(key, offer, answer, initiates=False)


class Seal:
    """The keys of one session: puts tags on what is sent, and checks those of what is received."""

    __slots__ = ("_incoming", "_outgoing", "datagram_key")

    def __init__(self, outgoing: bytes, incoming: bytes, datagram_key: bytes) -> None:
        self._outgoing = _Direction(outgoing)
        self._incoming = _Direction(incoming)
        self.datagram_key = datagram_key
        """The key of the datagrams that the initiator sends beside this connection."""

    def close(self, body: bytes) -> bytes:
        """Return the body of the next frame to send, with its tag at its end."""
        return body + self._outgoing.next_tag(body)

    def open(self, body: memoryview) -> memoryview:
        """Return the next frame received without its tag.

        Raise RemoteProtocolError if the tag is wrong.
        """
        content = body[:-TAG_BYTES]
        if not hmac.compare_digest(self._incoming.next_tag(content), body[-TAG_BYTES:]):
            why = "changed or repeated on its way, or its sender has no key of this cluster"
            raise RemoteProtocolError(f"a frame with a wrong seal: {why}")
        return content


class _Direction:
    """One direction of a connection: the key of its tags and the number of its next frame."""

    __slots__ = ("_count", "_keyed")

    def __init__(self, key: bytes) -> None:
        self._keyed = hashlib.blake2b(key=key, digest_size=TAG_BYTES)
        self._count = 0

    def next_tag(self, content: Buffer) -> bytes:
        tag = self._keyed.copy()
        tag.update(_COUNT.pack(self._count))
        tag.update(content)
        self._count += 1
        return tag.digest()


def datagram_tag(key: bytes, content: bytes) -> bytes:
    """Return the tag of a datagram's content."""
    return hashlib.blake2b(content, key=key, digest_size=TAG_BYTES).digest()


class DatagramGuards:
    """Lets a datagram count once, and only if its sender's newest session has sealed it."""

    def __init__(self, *, is_required: bool) -> None:
        """With `is_required`, no datagram without a seal counts."""
        self._is_required = is_required
        self.refused_count = 0
        """The datagrams that did not count."""
        self._guards: dict[int, _Guard] = {}

    def on_session(self, sender: int, datagram_key: bytes | None) -> None:
        """Note the newest session of a sender, and its key; None if that session has no seal."""
        if datagram_key is None:
            self._guards.pop(sender, None)
        else:
            self._guards[sender] = _Guard(datagram_key)

    def admits(self, datagram: Datagram) -> bool:
        """True if the datagram counts; it is then noted, so that a copy of it does not."""
        guard = self._guards.get(datagram.heartbeat.broker_id)
        if guard is None:
            counts = not self._is_required and not datagram.tag
        else:
            counts = guard.admits(datagram)
        self.refused_count += not counts
        return counts


@dataclass(slots=True)
class _Guard:
    key: bytes = field(repr=False)
    highest: int = -1
    """The highest sequence number that counted."""

    def admits(self, datagram: Datagram) -> bool:
        sequence = datagram.heartbeat.sequence
        # The cheap check comes first. Nothing is noted before the tag was found right, because
        # a forged number would shut out all true ones.
        if sequence <= self.highest:
            return False
        if not hmac.compare_digest(datagram_tag(self.key, datagram.content), datagram.tag):
            return False
        self.highest = sequence
        return True


def _seal_of(key: Key, offer: SealOffer, answer: SealAccepted, *, initiates: bool) -> Seal:
    """Derive the keys of a session: if a field was changed on its way, the ends' keys differ."""
    extracted = hmac.digest(offer.nonce + answer.nonce, key.secret, _HASH)
    told = b"".join(
        len(part).to_bytes(4, "big") + part
        for part in (
            b"minikafka control seal",
            bytes((answer.version,)),
            offer.max_version.to_bytes(2, "big"),
            answer.key_id,
            *offer.key_ids,
        )
    )
    to_acceptor, to_initiator, datagrams = _expanded(extracted, told, 3)
    if initiates:
        return Seal(to_acceptor, to_initiator, datagrams)
    return Seal(to_initiator, to_acceptor, datagrams)


def _expanded(extracted: bytes, told: bytes, count: int) -> list[bytes]:
    """Return `count` keys of 32 bytes each: the blocks of HKDF-Expand."""
    blocks, block = list[bytes](), b""
    for number in range(1, count + 1):
        block = hmac.digest(extracted, block + told + bytes((number,)), _HASH)
        blocks.append(block)
    return blocks
