"""The seal of the control plane: who is believed, and which frames and datagrams."""

from base64 import b64encode
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.protocol.control.heartbeat import (
    Datagram,
    Heartbeat,
    decode_heartbeat,
    encode_heartbeat,
)
from minikafka.protocol.control.messages import SealAccepted, SealOffer
from minikafka.protocol.errors import RemoteProtocolError
from minikafka.security.control_seal import (
    TAG_BYTES,
    DatagramGuards,
    Key,
    Keyring,
    Offering,
    Seal,
    accept,
    datagram_tag,
    keyring_of,
)

OLD, NEW, OTHER = (Key.of(bytes([each]) * 32) for each in (1, 2, 3))
HERS, OURS = b"h" * 32, b"o" * 32
"""What the dice of either end gave."""


def agreed(
    theirs: Keyring = (OLD,), ours: Keyring = (OLD,), dice: bytes = OURS
) -> tuple[Seal, Seal]:
    """Return the seals of initiator and acceptor."""
    offering = Offering(theirs, HERS)
    accepted = accept(ours, offering.offer, dice)
    assert accepted is not None
    answer, seal = accepted
    return offering.on_accepted(answer), seal


def passes(sender: Seal, receiver: Seal, body: bytes = b"Hello") -> bool:
    try:
        return bytes(receiver.open(memoryview(sender.close(body)))) == body
    except RemoteProtocolError:
        return False


@given(st.lists(st.tuples(st.booleans(), st.binary(max_size=200))))
def test_what_either_end_sends_arrives(sent: list[tuple[bool, bytes]]) -> None:
    initiator, acceptor = agreed()
    for is_hers, body in sent:
        assert passes(*((initiator, acceptor) if is_hers else (acceptor, initiator)), body)


@pytest.mark.parametrize(
    ("theirs", "ours", "chosen"),
    [
        ((OLD,), (OLD,), OLD),
        ((OLD,), (NEW, OLD), OLD),
        ((OLD, NEW), (NEW, OLD), OLD),
        ((NEW, OLD), (NEW,), NEW),
        ((OTHER, NEW), (NEW, OLD), NEW),
        ((OLD,), (NEW,), None),
        ((OLD, OTHER), (NEW,), None),
    ],
)
def test_the_first_key_of_the_offer_that_both_hold_is_chosen(
    theirs: Keyring, ours: Keyring, chosen: Key | None
) -> None:
    accepted = accept(ours, Offering(theirs, HERS).offer, OURS)
    assert (accepted and accepted[0].key_id) == (chosen and chosen.id)
    if accepted:
        assert passes(*agreed(theirs, ours))


def test_who_knows_the_key_id_and_not_the_key_proves_nothing() -> None:
    thief = Key(bytes(32), OLD.id)
    assert not passes(*agreed(theirs=(thief,)))
    initiator, acceptor = agreed(ours=(thief,))
    assert not passes(acceptor, initiator)


@pytest.mark.parametrize(
    "change",
    [
        lambda offer: replace(offer, nonce=b"x" * 32),
        lambda offer: replace(offer, max_version=2),
        lambda offer: replace(offer, key_ids=(OLD.id,)),
        lambda offer: replace(offer, key_ids=(NEW.id, OLD.id)),
    ],
)
def test_an_offer_changed_on_its_way_gives_other_keys(change: object) -> None:
    assert callable(change)
    offering = Offering((OLD, NEW), HERS)
    accepted = accept((OLD, NEW), change(offering.offer), OURS)
    assert accepted is not None
    assert not passes(offering.on_accepted(accepted[0]), accepted[1])


def test_an_answer_changed_on_its_way_gives_other_keys_or_none() -> None:
    offering = Offering((OLD, NEW), HERS)
    accepted = accept((OLD, NEW), offering.offer, OURS)
    assert accepted is not None
    answer, seal = accepted
    for changed in (replace(answer, nonce=b"x" * 32), replace(answer, key_id=NEW.id)):
        assert not passes(offering.on_accepted(changed), seal)
    for changed in (
        replace(answer, key_id=OTHER.id),
        replace(answer, nonce=b"short"),
        replace(answer, version=0),
        replace(answer, version=2),
    ):
        with pytest.raises(RemoteProtocolError):
            offering.on_accepted(changed)


@pytest.mark.parametrize(
    "offer",
    [
        SealOffer(0, (OLD.id,), HERS),
        SealOffer(1, (), HERS),
        SealOffer(1, (OLD.id,), b""),
        SealOffer(1, (OTHER.id,) * 16 + (OLD.id,), HERS),
    ],
)
def test_an_offer_that_is_none_is_not_accepted(offer: SealOffer) -> None:
    assert accept((OLD,), offer, OURS) is None


@given(st.integers(-(1 << 15), (1 << 15) - 1), st.lists(st.binary(max_size=9)), st.binary())
def test_no_offer_is_more_than_refused(version: int, ids: list[bytes], nonce: bytes) -> None:
    for held in (ids, [*ids, OLD.id]):
        accepted = accept((OLD,), SealOffer(version, tuple(held), nonce), OURS)
        assert accepted is None or (OLD.id in held and version >= 1 and len(nonce) == 32)


def test_a_newer_initiator_gets_the_version_that_is_known_here() -> None:
    accepted = accept((OLD,), SealOffer(9, (OLD.id,), HERS), OURS)
    assert accepted is not None
    assert accepted[0].version == 1


@given(st.binary(max_size=64), st.data())
def test_one_changed_bit_is_seen(body: bytes, data: st.DataObject) -> None:
    initiator, acceptor = agreed()
    frame = bytearray(initiator.close(body))
    frame[data.draw(st.integers(0, len(frame) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(RemoteProtocolError, match="wrong seal"):
        acceptor.open(memoryview(bytes(frame)))


@pytest.mark.parametrize("length", [0, 1, TAG_BYTES - 1])
def test_a_frame_shorter_than_a_tag_is_refused(length: int) -> None:
    _, acceptor = agreed()
    with pytest.raises(RemoteProtocolError):
        acceptor.open(memoryview(bytes(length)))


def test_a_frame_counts_once_in_its_place_and_its_direction() -> None:
    initiator, acceptor = agreed()
    first, second = (memoryview(initiator.close(each)) for each in (b"1", b"2"))
    with pytest.raises(RemoteProtocolError):
        agreed()[1].open(second)
    acceptor.open(first)
    with pytest.raises(RemoteProtocolError):
        acceptor.open(first)
    with pytest.raises(RemoteProtocolError):
        initiator.open(memoryview(initiator.close(b"3")))


def test_s_52_frames_of_a_recorded_session_open_nothing_in_another() -> None:
    """S-52: the initiator's nonce is repeated too, and only the acceptor's is new."""
    initiator, recorded = agreed()
    frame = initiator.close(b"Hello")
    assert bytes(recorded.open(memoryview(frame))) == b"Hello"
    _, later = agreed(dice=b"another throw of the dice".ljust(32))
    with pytest.raises(RemoteProtocolError):
        later.open(memoryview(frame))


# -- datagrams


def beat(sequence: int, key: bytes | None = None, sender: int = 1) -> Datagram:
    heartbeat = Heartbeat("cluster", sender, 5, b"i" * 16, sequence)
    tag_of = None if key is None else lambda content: datagram_tag(key, content)
    return decode_heartbeat(encode_heartbeat(heartbeat, tag_of))


def test_a_datagram_counts_once_and_never_after_a_later_one() -> None:
    key = agreed()[0].datagram_key
    guards = DatagramGuards(is_required=True)
    guards.on_session(1, key)
    told = [guards.admits(beat(sequence, key)) for sequence in (1, 1, 5, 3, 6, 5)]
    assert told == [True, False, True, False, True, False]


def test_both_ends_have_the_key_of_the_datagrams_and_each_session_another() -> None:
    initiator, acceptor = agreed()
    assert initiator.datagram_key == acceptor.datagram_key
    assert initiator.datagram_key != agreed(dice=b"n" * 32)[0].datagram_key


def test_a_forged_number_shuts_out_no_true_one() -> None:
    key = agreed()[0].datagram_key
    guards = DatagramGuards(is_required=True)
    guards.on_session(1, key)
    assert not guards.admits(beat((1 << 63) - 1, b"x" * 32))
    assert not guards.admits(beat((1 << 63) - 1))
    assert guards.admits(beat(1, key))


def test_a_datagram_of_an_earlier_session_or_of_another_broker_does_not_count() -> None:
    before, now = agreed()[0].datagram_key, agreed(dice=b"n" * 32)[0].datagram_key
    guards = DatagramGuards(is_required=True)
    guards.on_session(1, before)
    guards.on_session(1, now)
    assert not guards.admits(beat(9, before))
    assert not guards.admits(beat(9, now, sender=2))
    assert guards.admits(beat(9, now))


@pytest.mark.parametrize("is_required", [True, False])
def test_without_a_session_only_what_needs_no_seal_counts(is_required: bool) -> None:
    guards = DatagramGuards(is_required=is_required)
    assert guards.admits(beat(1)) is not is_required
    assert not guards.admits(beat(2, b"k" * 32))
    guards.on_session(1, b"k" * 32)
    assert not guards.admits(beat(3))
    guards.on_session(1, None)
    assert guards.admits(beat(3)) is not is_required


# -- the text of a key file


def test_a_key_file_has_one_key_or_two() -> None:
    first, second = (b64encode(key.secret).decode() for key in (OLD, NEW))
    assert keyring_of(first) == (OLD,)
    assert keyring_of(f"# before\n\n  {second}  \n# after\n{first}\n") == (NEW, OLD)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "0 keys"),
        ("# nothing\n", "0 keys"),
        ("\n".join([b64encode(bytes(32)).decode()] * 3), "3 keys"),
        (b64encode(bytes(31)).decode(), "31 bytes"),
        (b64encode(bytes(65)).decode(), "65 bytes"),
        ("not a key", "line 1 is not Base64"),
    ],
)
def test_a_text_without_keys_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        keyring_of(text)


def test_s_55_no_key_is_shown_when_one_is_printed_or_refused() -> None:
    """S-55: a key is in no text."""
    secret = b"a secret of more than 64 bytes, which must not be shown to anybody at all"
    shown = b64encode(secret).decode()
    with pytest.raises(ValueError, match="line 1 is a key of 73 bytes") as refused:
        keyring_of(shown)
    key = Key.of(secret[:64])
    initiator, _ = agreed((key,), (key,))
    texts = [str(refused.value), repr(key), repr(Offering((key,), HERS)), repr(initiator)]
    accepted = accept((key,), Offering((key,), HERS).offer, OURS)
    texts.append(repr(accepted))
    assert not any("secret" in text or shown[:10] in text for text in texts)


def test_a_nonce_shows_nothing_of_the_dice() -> None:
    offer = Offering((OLD,), HERS).offer
    answer = accept((OLD,), offer, OURS)
    assert answer is not None
    assert isinstance(answer[0], SealAccepted)
    assert HERS not in offer.nonce
    assert OURS not in answer[0].nonce
