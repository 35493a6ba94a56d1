"""OTLP as clients push it is read; other bytes are an error, and cost no more than is bounded."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.protocol.errors import RemoteProtocolError
from minikafka.protocol.otlp import ATTRIBUTES_MAX, TEXT_MAX, Pushed, Sample, read_metrics

from ..support import otlp


def read(data: bytes, *, samples_max: int = 1000, fields_max: int = 30_000) -> Pushed:
    return read_metrics(data, samples_max=samples_max, fields_max=fields_max)


def test_gauges_and_sums_are_read_with_their_attributes() -> None:
    data = otlp.metrics_data(
        otlp.gauge("g", otlp.point(1.5, topic="t", partition=3), otlp.point(-2)),
        otlp.total("s", otlp.point(7)),
        otlp.total("d", otlp.point(8), temporality=otlp.DELTA),
        otlp.total("u", otlp.point(9), grows=False),
        resource=[("group_id", "g1"), ("client_rack", "r")],
    )
    assert read(data) == Pushed(
        {"group_id": "g1", "client_rack": "r"},
        [
            Sample("g", {"topic": "t", "partition": "3"}, 1.5, False, False),
            Sample("g", {}, -2, False, False),
            Sample("s", {}, 7, True, False),
            Sample("d", {}, 8, True, True),
            Sample("u", {}, 9, False, False),
        ],
        True,
    )


def test_an_attribute_of_any_kind_is_a_text() -> None:
    data = otlp.metrics_data(otlp.gauge("g", otlp.point(1, a=-1, b=True, c=False, d=0.5, e="ü")))
    (sample,) = read(data).samples
    assert sample.attributes == {"a": "-1", "b": "true", "c": "false", "d": "0.5", "e": "ü"}


def test_what_is_not_known_is_skipped() -> None:
    histogram = otlp.part(1, "h") + otlp.part(9, otlp.part(1, otlp.point(1)))
    named_by_a_number = otlp.number(1, 5) + otlp.part(5, otlp.part(1, otlp.point(1)))
    newer = otlp.gauge("g", otlp.point(1)) + otlp.part(99, b"\xff") + otlp.number(98, 1)
    fixed32 = bytes([97 << 3 & 0x7F | 5 | 0x80, 97 >> 4]) + bytes(4)
    data = otlp.metrics_data(histogram, named_by_a_number, newer + fixed32) + otlp.part(7, b"\xff")
    assert [sample.name for sample in read(data).samples] == ["g"]


def test_a_point_without_a_value_is_no_sample() -> None:
    nothing = otlp.part(7, otlp.attribute("a", "b"))
    assert read(otlp.metrics_data(otlp.gauge("g", nothing))) == Pushed({}, [], True)
    assert read(b"") == Pushed({}, [], True)


@pytest.mark.parametrize(
    "data",
    [
        b"\x0a",
        b"\x0a\x05abc",
        b"\xff" * 20,
        b"\x02\x00",
        b"\x0b",
        b"\x0c",
        b"\x09" + bytes(7),
        otlp.metrics_data(otlp.part(1, b"\xff\xfe")),
        otlp.metrics_data(otlp.gauge("g", otlp.point(1, a="b")[:-1])),
    ],
    ids=[
        "a length is missing",
        "fewer bytes than said",
        "a number without end",
        "the field 0",
        "a group",
        "the end of a group",
        "half a number",
        "no UTF-8",
        "half a point",
    ],
)
def test_m_19_other_bytes_are_an_error(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="OTLP"):
        read(data)


def test_reading_stops_at_the_bound_of_samples() -> None:
    points = [otlp.point(each) for each in range(10)]
    read_in_part = read(otlp.metrics_data(otlp.gauge("g", *points)), samples_max=3)
    assert [sample.value for sample in read_in_part.samples] == [0, 1, 2]
    assert not read_in_part.is_whole
    assert read(otlp.metrics_data(otlp.gauge("g", *points)), samples_max=10).is_whole


def test_m_19_reading_stops_at_the_bound_of_fields() -> None:
    """A message of a million empty metrics is small, and would take long to read."""
    bomb = otlp.metrics_data(otlp.gauge("g", otlp.point(1)), *[b""] * 1000)
    found = read(bomb, fields_max=100)
    assert [sample.name for sample in found.samples] == ["g"]
    assert not found.is_whole
    nested = b""
    for _ in range(1000):
        nested = otlp.part(1, nested)
    assert read(nested).samples == []


@pytest.mark.parametrize(
    "metric",
    [
        otlp.gauge("n" * (TEXT_MAX + 1), otlp.point(1)),
        otlp.gauge("", otlp.point(1)),
        otlp.gauge("g", otlp.point(1, **{"k" * (TEXT_MAX + 1): "v"})),
        otlp.gauge("g", otlp.point(1, k="ü" * (TEXT_MAX // 2 + 1))),
        otlp.gauge("g", otlp.point(1, **{f"k{n}": "v" for n in range(ATTRIBUTES_MAX + 1)})),
    ],
    ids=["a long name", "no name", "a long key", "a long value", "many attributes"],
)
def test_what_is_too_long_is_left_out(metric: bytes) -> None:
    found = read(otlp.metrics_data(metric, otlp.gauge("kept", otlp.point(1))))
    assert [sample.name for sample in found.samples] == ["kept"]
    assert not found.is_whole


@given(st.binary(max_size=200))
def test_no_bytes_bring_anything_but_samples_or_an_error(data: bytes) -> None:
    with suppress(RemoteProtocolError):
        read(data, fields_max=50)


@given(st.data())
def test_one_wrong_byte_brings_nothing_else_either(data: st.DataObject) -> None:
    whole = bytearray(otlp.metrics_data(otlp.total("s", otlp.point(7, a="b", c=1))))
    place = data.draw(st.integers(0, len(whole) - 1))
    whole[place] = data.draw(st.integers(0, 255))
    with suppress(RemoteProtocolError):
        assert len(read(bytes(whole)).samples) <= 1
