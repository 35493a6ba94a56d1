"""The metadata image: what each record means, what a run of them touched, snapshots."""

import dataclasses

import pytest

from minikafka.protocol.control import records as r
from minikafka.protocol.control.batches import (
    SNAPSHOT_BATCH_RECORDS,
    decode_batches,
    encode_batch,
    load_snapshot,
    replay,
    snapshot_batches,
)
from minikafka.protocol.control.image import Delta, MetadataImage, PartitionState
from minikafka.protocol.control.messages import Endpoint, SnapshotId, VersionRange
from minikafka.protocol.errors import RemoteProtocolError
from minikafka.protocol.types import TopicIdPartition

T, U = b"t" * 16, b"u" * 16
BROKER = r.RegisterBrokerRecord(
    1,
    b"i" * 16,
    (b"d" * 16,),
    (Endpoint("INSIDE", "h", 1), Endpoint("OUTSIDE", "o", 2, "SSL")),
    "rack",
    {"metadata.version": VersionRange(1, 1)},
)

AUDITED = r.AuditedRecord(
    1,
    "CreateTopics",
    "User:a",
    "c",
    "10.0.0.1",
    b"k",
    5,
    (r.AuditedChange("topic", "t", "partitions", None, "1"),),
)


def play(image: MetadataImage, *records: r.MetadataRecord) -> Delta:
    delta = Delta()
    for record in records:
        image.apply(record, image.offset + 1, delta)
    return delta


def an_image_of_everything() -> MetadataImage:
    image = MetadataImage()
    play(
        image,
        r.ClusterRecord("cluster"),
        r.ControllerElected(9, 4),
        r.FeatureRecord(r.METADATA_VERSION, 1),
        BROKER,
        r.BrokerChangeRecord(1, 3, fenced=False),
        r.TopicRecord("t", T, unknown=r.Unknown(2, ("later",))),
        r.ConfigRecord(r.TOPIC, "t", "retention.ms", "5"),
        r.ConfigRecord(r.BROKER, "", "k", "v"),
        r.PartitionRecord(T, 0, (1, 2), (1, 2), 1),
        r.PartitionChangeRecord(T, 0, isr=(1,), leader=1),
        r.PartitionRecord(T, 1, (2, 1), (2,), -1, elr=(1,), directories=(b"x" * 16,)),
        r.PartitionChangeRecord(T, 1, electing=True, offline=(1,)),
        r.PartitionRecord(
            T,
            2,
            (2, 1),
            (2,),
            2,
            last_known_elr=(1,),
            adding=(3,),
            removing=(1,),
            unknown=r.Unknown(9, (1,)),
        ),
        r.PartitionChangeRecord(T, 2, isr=(1,), leader=1, recovering=True),
        r.AccessControlEntryRecord(b"a" * 16, 2, "t", 3, "User:a", "*", 3, 3),
        r.AccessControlEntryRecord(b"b" * 16, 2, "t", 4, "User:b", "*", 3, 2),
        r.RemoveAccessControlEntryRecord(b"a" * 16),
        r.ScramSecretRecord(b"secret"),
        r.ScramCredentialRecord("alice", 1, b"salt", b"stored", b"server", 4096),
        r.ScramCredentialRecord("bob", 2, b"salt", b"stored", b"server", 8192),
        r.RemoveScramCredentialRecord("bob", 2),
        r.ClientQuotaRecord({"user": "alice", "client-id": None}, "request_percentage", 50.5),
        r.ClientQuotaRecord({"user": "bob"}, "producer_byte_rate", 1024.0),
        r.ClientQuotaRecord({"user": "bob"}, "producer_byte_rate", None),
        r.DelegationTokenRecord("t1", "User:a", "User:b", ("User:c",), 1, 2, 9),
        r.DelegationTokenRecord("t2", "User:a", "User:a", (), 1, 2, 9),
        r.DelegationTokenRecord("t1", "User:a", "User:b", ("User:c",), 1, 5, 9),
        r.RemoveDelegationTokenRecord("t2"),
        r.ProducerIdsRecord(1, 3, 2000),
        AUDITED,
        r.UnknownRecord(99, 1, (1, "x")),
        r.BrokerChangeRecord(1, 3, in_controlled_shutdown=True),
    )
    return image


def test_everything_is_in_the_image_of_everything() -> None:
    """Else a snapshot could lose what no test ever sets."""
    image = an_image_of_everything()
    empty = PartitionState((), ())
    for field in dataclasses.fields(PartitionState):
        default = getattr(empty, field.name)
        assert any(getattr(each, field.name) != default for _, each in image.partitions()), field
    for field in dataclasses.fields(MetadataImage):
        assert getattr(image, field.name) != getattr(MetadataImage(), field.name), field
    broker = image.brokers[1]
    assert broker.in_controlled_shutdown
    assert not broker.fenced


def test_a_registration_without_epoch_gets_that_of_its_offset() -> None:
    image = MetadataImage()
    play(image, r.ClusterRecord("c"), BROKER)
    broker = image.brokers[1]
    assert broker.broker_epoch == 1
    assert broker.fenced
    assert not broker.is_active
    assert broker.endpoint("OUTSIDE") == Endpoint("OUTSIDE", "o", 2, "SSL")
    assert broker.endpoint("NOWHERE") is None


def test_a_change_leaves_alone_what_it_does_not_name() -> None:
    image = MetadataImage()
    play(image, BROKER, r.BrokerChangeRecord(1, 0, in_controlled_shutdown=True))
    assert image.brokers[1].fenced
    assert image.brokers[1].in_controlled_shutdown
    play(image, r.BrokerChangeRecord(1, 0, fenced=False))
    assert image.brokers[1].in_controlled_shutdown


def test_epochs_of_a_partition_grow_by_the_book() -> None:
    image = MetadataImage()
    play(image, r.TopicRecord("t", T), r.PartitionRecord(T, 0, (1, 2, 3), (1, 2, 3), 1))
    play(image, r.PartitionChangeRecord(T, 0, isr=(1, 2)))
    expected = PartitionState((1, 2, 3), (1, 2), 1, leader_epoch=0, partition_epoch=1)
    assert image.partition(T, 0) == expected
    play(image, r.PartitionChangeRecord(T, 0, leader=1))
    state = image.partition(T, 0)
    assert state is not None
    assert (state.leader, state.leader_epoch, state.partition_epoch) == (1, 1, 2)


def test_a_delta_tells_what_was_touched() -> None:
    image = an_image_of_everything()
    delta = play(
        image,
        r.TopicRecord("u", U),
        r.PartitionRecord(U, 0, (1,), (1,), 1),
        r.PartitionChangeRecord(T, 1, leader=2),
        r.ConfigRecord(r.TOPIC, "t", "retention.ms", None),
        r.BrokerChangeRecord(1, 3, fenced=True),
    )
    assert list(delta.new_topics) == [U]
    assert list(delta.changed_partitions) == [TopicIdPartition(U, 0), TopicIdPartition(T, 1)]
    assert list(delta.changed_configs) == [(r.TOPIC, "t")]
    assert list(delta.changed_brokers) == [1]
    assert (r.TOPIC, "t") not in image.configs
    assert not Delta()


def test_deleted_and_made_again_in_one_delta_are_two_topics() -> None:
    image = an_image_of_everything()
    before = image.topics[T]
    delta = play(
        image,
        r.PartitionChangeRecord(T, 0, leader=2),
        r.ConfigRecord(r.TOPIC, "t", "retention.ms", "7"),
        r.RemoveTopicRecord(T),
        r.TopicRecord("t", U),
        r.PartitionRecord(U, 0, (1,), (1,), 1),
    )
    assert delta.deleted_topics == {T: before}
    assert list(delta.new_topics) == [U]
    assert list(delta.changed_partitions) == [TopicIdPartition(U, 0)]
    assert delta.changed_configs == {}
    assert image.topic_ids == {"t": U}
    assert (r.TOPIC, "t") not in image.configs


def test_made_and_deleted_in_one_delta_leaves_nothing_to_do_but_delete() -> None:
    image = MetadataImage()
    delta = play(
        image,
        r.TopicRecord("u", U),
        r.PartitionRecord(U, 0, (1,), (1,), 1),
        r.RemoveTopicRecord(U),
    )
    assert (delta.new_topics, delta.changed_partitions) == ({}, {})
    assert list(delta.deleted_topics) == [U]
    assert (image.topics, image.topic_ids) == ({}, {})


@pytest.mark.parametrize(
    "record",
    [
        r.RemoveTopicRecord(U),
        r.PartitionRecord(U, 0, (1,), (1,), 1),
        r.PartitionChangeRecord(U, 0, leader=1),
        r.PartitionChangeRecord(T, 9, leader=1),
        r.TopicRecord("t", U),
        r.TopicRecord("other", T),
        r.BrokerChangeRecord(1, 77, fenced=True),
        r.BrokerChangeRecord(2, 3, fenced=True),
        r.RemoveDelegationTokenRecord("t2"),
    ],
)
def test_a_13_a_record_that_does_not_fit_is_never_skipped(record: r.MetadataRecord) -> None:
    with pytest.raises(RemoteProtocolError):
        play(an_image_of_everything(), record)


def test_19_a_snapshot_holds_the_image_and_the_tail_goes_on_from_it() -> None:
    image = an_image_of_everything()
    data = b"".join(snapshot_batches(image, 5))
    loaded = load_snapshot(data, SnapshotId(image.offset + 1, image.epoch))
    assert loaded == image
    for each in (loaded, image):
        play(each, r.RemoveTopicRecord(T), r.ConfigRecord(r.BROKER, "", "k", None))
    assert loaded == image


def test_a_snapshot_has_batches_of_bounded_size() -> None:
    image = MetadataImage()
    play(image, r.TopicRecord("t", T))
    for index in range(2 * SNAPSHOT_BATCH_RECORDS):
        play(image, r.PartitionRecord(T, index, (1,), (1,), 1))
    batches = list(snapshot_batches(image, 0))
    assert len(batches) == 3
    loaded = load_snapshot(b"".join(batches), SnapshotId(image.offset + 1, image.epoch))
    assert loaded == image


def test_a_copy_is_not_reached_by_later_records() -> None:
    image = an_image_of_everything()
    copy, twin = image.copy(), an_image_of_everything()
    assert copy == image
    play(
        image,
        r.PartitionChangeRecord(T, 0, leader=2),
        r.BrokerChangeRecord(1, 3, fenced=True),
        r.ConfigRecord(r.TOPIC, "t", "retention.ms", "6"),
        r.FeatureRecord(r.METADATA_VERSION, 2),
        r.UnknownRecord(98, 1, ()),
        r.TopicRecord("u", U),
        r.RemoveDelegationTokenRecord("t1"),
    )
    assert copy == twin


def test_batches_are_replayed_in_order_and_whole() -> None:
    first = encode_batch(
        [r.ClusterRecord("c"), r.TopicRecord("t", T)], base_offset=0, epoch=3, timestamp_ms=1
    )
    second = encode_batch([r.TopicRecord("u", U)], base_offset=2, epoch=4, timestamp_ms=2)
    image = MetadataImage()
    delta = replay(image, first + second)
    assert (image.offset, image.epoch) == (2, 4)
    assert list(delta.new_topics) == [T, U]
    with pytest.raises(RemoteProtocolError, match="the next offset is 3"):
        replay(image, second)
    with pytest.raises(RemoteProtocolError, match="after the last whole"):
        replay(MetadataImage(), (first + second)[:-1])
    broken = bytearray(first)
    broken[-1] ^= 1
    with pytest.raises(RemoteProtocolError, match="crc"):
        list(decode_batches(broken))


def test_entries_that_come_and_go_in_one_run_are_in_no_delta() -> None:
    image = MetadataImage()
    entry = r.AccessControlEntryRecord(b"a" * 16, 2, "t", 3, "User:a", "*", 3, 3)
    gone = r.RemoveAccessControlEntryRecord(b"a" * 16)
    assert not play(image, entry, gone)
    delta = play(image, entry)
    assert list(delta.new_acls) == [b"a" * 16]
    delta = play(image, gone, entry)
    assert (list(delta.deleted_acls), list(delta.new_acls)) == ([b"a" * 16], [b"a" * 16])
    with pytest.raises(RemoteProtocolError, match=r"ACL 6161\w* exists"):
        play(image, entry)
    with pytest.raises(RemoteProtocolError, match="no ACL 6262"):
        play(image, r.RemoveAccessControlEntryRecord(b"b" * 16))


def test_quotas_are_kept_by_entity_however_it_is_written() -> None:
    image = MetadataImage()
    both = (("client-id", None), ("user", "alice"))
    delta = play(
        image,
        r.ClientQuotaRecord({"user": "alice", "client-id": None}, "producer_byte_rate", 5.0),
        r.ClientQuotaRecord({"client-id": None, "user": "alice"}, "consumer_byte_rate", 7.0),
    )
    assert image.quotas == {both: {"producer_byte_rate": 5.0, "consumer_byte_rate": 7.0}}
    assert (list(delta.changed_quotas), delta.touches_quotas, bool(delta)) == ([both], True, True)
    copy, kept = image.copy(), image.quotas[both]
    play(
        image, r.ClientQuotaRecord({"user": "alice", "client-id": None}, "producer_byte_rate", 6.0)
    )
    assert kept == copy.quotas[both] == {"producer_byte_rate": 5.0, "consumer_byte_rate": 7.0}
    for key in kept:
        delta = play(image, r.ClientQuotaRecord({"user": "alice", "client-id": None}, key, None))
    assert image.quotas == {}
    assert list(delta.changed_quotas) == [both]
    assert not play(image, r.FeatureRecord(r.METADATA_VERSION, 1)).touches_quotas
    assert Delta(is_snapshot=True).touches_quotas


def test_an_audited_request_keeps_its_offset_in_snapshots() -> None:
    image = MetadataImage()
    delta = play(image, r.ClusterRecord("c"), AUDITED)
    assert delta.is_audited
    assert bool(Delta(is_audited=True))
    assert [each.offset for each in image.audited] == [1]
    copy, again = image.copy(), MetadataImage()
    play(again, *image.to_records())
    assert again.audited == image.audited
    play(image, dataclasses.replace(AUDITED, number=2))
    assert (copy.audited.newest, image.audited.newest) == (1, 2)
