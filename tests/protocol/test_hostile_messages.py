"""Bytes that a peer may send and no client of good will does. Scenarios M-02, M-03 and M-12."""

import struct
import tracemalloc

import pytest

from minikafka.protocol import codec
from minikafka.protocol.errors import RemoteProtocolError
from minikafka.protocol.messages.api_versions import ApiVersionsRequest
from minikafka.protocol.messages.create_topics import CreateTopicsRequest
from minikafka.protocol.messages.delete_topics import DeleteTopicsRequest
from minikafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from minikafka.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from minikafka.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from minikafka.protocol.schema import MOST_ITEMS

HUGE = 2**31 - 1


def uvarint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*out, value))


def refuse(cls: type, version: int, data: bytes, why: str = " v") -> None:
    """The bytes are refused, and refusing them costs next to no memory."""
    codec.decoder_of(cls, version)
    tracemalloc.start()
    try:
        with pytest.raises(RemoteProtocolError, match=why):
            codec.decode(cls, version, data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100_000


def compact(text: str) -> bytes:
    return uvarint(len(text) + 1) + text.encode()


PRODUCE_V7 = struct.pack(">hhi", -1, 1, 1000)  # no transactional id, acks, timeout
PRODUCE_V9 = b"\x00" + struct.pack(">hi", 1, 1000)


@pytest.mark.parametrize(
    ("cls", "version", "data"),
    [
        (MetadataRequest, 4, struct.pack(">i", HUGE)),
        (MetadataRequest, 4, struct.pack(">i", 10)),
        (ProduceRequest, 7, PRODUCE_V7 + struct.pack(">i", HUGE)),
        (ProduceRequest, 7, PRODUCE_V7 + struct.pack(">ih1si", 1, 1, b"t", HUGE)),
        (ProduceRequest, 7, PRODUCE_V7 + struct.pack(">ih1siii", 1, 1, b"t", 1, 0, HUGE)),
        (FetchRequest, 4, struct.pack(">iiiibi", -1, 0, 0, 0, 0, HUGE)),
        (DeleteTopicsRequest, 1, struct.pack(">i", HUGE)),
        (CreateTopicsRequest, 2, struct.pack(">ih1sihi", 1, 1, b"t", 1, 1, HUGE)),
        # an array of int32 inside an array of structs inside an array of structs
        (CreateTopicsRequest, 2, struct.pack(">ih1sihiii", 1, 1, b"t", 1, 1, 1, 0, HUGE)),
    ],
    ids=lambda value: value.hex() if isinstance(value, bytes) else str(value),
)
def test_m_02_array_claim_larger_than_frame(cls: type, version: int, data: bytes) -> None:
    refuse(cls, version, data, "claims")


@pytest.mark.parametrize(
    ("cls", "version", "data"),
    [
        (MetadataRequest, 9, uvarint(HUGE)),
        (MetadataRequest, 12, uvarint(2**32 - 1)),
        (ProduceRequest, 9, PRODUCE_V9 + uvarint(HUGE)),
        (ProduceRequest, 9, PRODUCE_V9 + uvarint(2) + compact("t") + uvarint(HUGE)),
        (
            ProduceRequest,
            9,
            PRODUCE_V9 + uvarint(2) + compact("t") + uvarint(2) + bytes(4) + uvarint(HUGE),
        ),
        (ProduceRequest, 13, PRODUCE_V9 + uvarint(2) + bytes(16) + uvarint(HUGE)),
        (ProduceRequest, 9, uvarint(HUGE)),
        (CreateTopicsRequest, 7, uvarint(2) + compact("t") + bytes(6) + uvarint(HUGE)),
    ],
    ids=lambda value: value.hex() if isinstance(value, bytes) else str(value),
)
def test_m_02_compact_claim_larger_than_frame(cls: type, version: int, data: bytes) -> None:
    refuse(cls, version, data, "claims")


def test_m_02_tagged_field_larger_than_frame() -> None:
    known = b"\x01" + uvarint(0)
    refuse(FetchRequest, 12, _fetch_v12_body() + known + uvarint(HUGE), "claims")
    unknown = b"\x01" + uvarint(5000) + uvarint(HUGE)
    refuse(ApiVersionsRequest, 3, compact("a") + compact("b") + unknown, "claims")


def test_m_02_more_tagged_fields_than_the_frame_holds() -> None:
    many = uvarint(2**32 - 1)
    refuse(ApiVersionsRequest, 3, compact("a") + compact("b") + many)


def _fetch_v12_body() -> bytes:
    request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[])
    return codec.encode_bytes(request, 12)[:-1]


def test_m_02_a_claim_of_exactly_the_bytes_there_is_read() -> None:
    data = struct.pack(">ih3sh1sb", 2, 3, b"abc", 1, b"d", 1)
    read = codec.decode(MetadataRequest, 4, data)
    assert [topic.name for topic in read.topics or []] == ["abc", "d"]


@pytest.mark.parametrize(
    "length", [b"\xff\xff\xff\xff\xff\x01", b"\x80" * 9 + b"\x01", b"\xff" * 20, b"\xff\xff"]
)
def test_m_03_varint_too_long_or_cut_off(length: bytes) -> None:
    refuse(MetadataRequest, 9, length)
    refuse(ApiVersionsRequest, 3, length)


@pytest.mark.parametrize(
    "text",
    [
        b"\xc0\x80",  # overlong NUL
        b"\xe0\x80\xaf",  # overlong slash
        b"\xed\xa0\x80",  # a surrogate
        b"\xf8\x88\x80\x80\x80",  # five bytes
        b"\xff",
        b"\xc3",  # cut off
    ],
)
def test_m_03_text_that_is_not_utf8(text: bytes) -> None:
    refuse(MetadataRequest, 1, struct.pack(">ih", 1, len(text)) + text, "MetadataRequest v1")
    data = uvarint(len(text) + 1) + text + compact("b") + b"\x00"
    refuse(ApiVersionsRequest, 3, data, "ApiVersionsRequest v3")
    header = struct.pack(">hhih", 3, 1, 7, len(text)) + text
    with pytest.raises(RemoteProtocolError, match="request header"):
        codec.decode_request_header(memoryview(header))


@pytest.mark.parametrize(
    ("cls", "version", "data"),
    [
        (MetadataRequest, 0, struct.pack(">i", -1)),
        (MetadataRequest, 1, struct.pack(">ih", 1, -1)),
        (ProduceRequest, 7, PRODUCE_V7 + struct.pack(">i", -1)),
        (ProduceRequest, 7, PRODUCE_V7 + struct.pack(">ih", 1, -1) + bytes(8)),
        (ProduceRequest, 9, PRODUCE_V9 + b"\x00"),
        (DeleteTopicsRequest, 1, struct.pack(">i", -1)),
        (ApiVersionsRequest, 3, b"\x00" + compact("b") + b"\x00"),
    ],
    ids=lambda value: value.hex() if isinstance(value, bytes) else str(value),
)
def test_m_03_null_where_it_may_not_be(cls: type, version: int, data: bytes) -> None:
    refuse(cls, version, data, "null")


def test_m_03_unknown_tags_are_skipped_and_tags_out_of_order_refused() -> None:
    names = compact("a") + compact("b")
    good = b"\x02" + uvarint(3) + b"\x02xy" + uvarint(99) + b"\x00"
    assert codec.decode(ApiVersionsRequest, 3, names + good).client_software_name == "a"
    for first, second in ((99, 3), (3, 3)):
        bad = b"\x02" + uvarint(first) + b"\x00" + uvarint(second) + b"\x00"
        refuse(ApiVersionsRequest, 3, names + bad, "after tag")


def test_m_03_a_known_tag_that_its_value_does_not_fill() -> None:
    tags = b"\x01" + uvarint(0) + b"\x05" + compact("abc")[:5] + b"\x00" * 4
    with pytest.raises(RemoteProtocolError):
        codec.decode(FetchRequest, 12, _fetch_v12_body() + tags)


def test_m_03_a_header_whose_client_id_is_longer_than_the_frame() -> None:
    with pytest.raises(RemoteProtocolError, match="client id"):
        codec.decode_request_header(memoryview(struct.pack(">hhih", 0, 7, 1, 30_000) + b"abc"))
    with pytest.raises(RemoteProtocolError):
        codec.decode_request_header(memoryview(b"\x00\x00\x00"))


def test_bytes_after_the_message_are_refused() -> None:
    refuse(ApiVersionsRequest, 0, b"\x00", "left over")


def test_a_message_cut_off_anywhere_is_refused() -> None:
    partition = FetchPartition(
        partition=1, fetch_offset=5, partition_max_bytes=10, flushed_offset=7
    )
    topics = [FetchTopic(topic="abc", topic_id=bytes(range(16)), partitions=[partition] * 2)]
    request = FetchRequest(max_wait_ms=1, min_bytes=1, topics=topics, rack_id="r", cluster_id="c")
    for version in (4, 11, 12, 18):
        whole = codec.encode_bytes(request, version)
        for size in range(len(whole)):
            with pytest.raises(RemoteProtocolError):
                codec.decode(FetchRequest, version, whole[:size])


def test_m_12_a_decoded_produce_request_does_not_copy_its_records() -> None:
    records = bytes(1_000_000)
    partition = PartitionProduceData(index=0, records=records)
    topics = [TopicProduceData(name="t", partition_data=[partition])]
    data = codec.encode_bytes(ProduceRequest(acks=1, timeout_ms=1, topic_data=topics), 9)
    codec.decoder_of(ProduceRequest, 9)
    tracemalloc.start()
    read = codec.decode(ProduceRequest, 9, data)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 10_000
    assert read.topic_data[0].partition_data[0].records == records


@pytest.mark.parametrize("version", [1, 9])
def test_m_12_small_items_cost_memory_in_proportion_to_their_bytes(version: int) -> None:
    """The cheapest array to claim: what is decoded stays within a factor of the frame."""
    count = 50_000
    if version == 1:
        data = struct.pack(">i", count) + b"\x00\x00" * count
    else:
        data = uvarint(count + 1) + b"\x01\x00" * count + b"\x00" * 4
    codec.decoder_of(MetadataRequest, version)
    tracemalloc.start()
    codec.decode(MetadataRequest, version, data)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 50 * len(data)


@pytest.mark.parametrize("version", [1, 9, 12])
def test_m_12_a_request_has_only_so_many_items(version: int) -> None:
    def names(count: int) -> bytes:
        asked = MetadataRequest(topics=[MetadataRequestTopic(name="t")] * count)
        return codec.encode_bytes(asked, version)

    for _ in range(2):  # What one took up is there again for the next.
        read = codec.decode(MetadataRequest, version, names(MOST_ITEMS))
        assert len(read.topics or ()) == MOST_ITEMS
        refuse(MetadataRequest, version, names(MOST_ITEMS + 1), "more than 100000 items")


def test_m_12_items_of_all_arrays_count_together() -> None:
    topics = [
        TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=b"")] * 99)
    ] * 201
    asked = ProduceRequest(acks=1, timeout_ms=1, topic_data=topics)
    data = codec.encode_bytes(asked, 9)
    with pytest.raises(RemoteProtocolError, match="more than 20000 items"):
        codec.decode(ProduceRequest, 9, data)
    asked.topic_data = topics[:200]
    assert len(codec.decode(ProduceRequest, 9, codec.encode_bytes(asked, 9)).topic_data) == 200


def test_a_response_may_be_as_long_as_its_server_makes_it() -> None:
    topics = [MetadataResponseTopic(name="t")] * (MOST_ITEMS + 1)
    told = MetadataResponse(brokers=[], cluster_id=None, controller_id=1, topics=topics)
    data = codec.encode_bytes(told, 9)
    assert len(codec.decode(MetadataResponse, 9, data).topics) == MOST_ITEMS + 1
