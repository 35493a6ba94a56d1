"""The pure parts: JSON in a stream, media types, formats, rates, logins, settings."""

import base64
import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.runtime.errors import ConfigError
from minikafka.web.rest import media
from minikafka.web.rest.errors import RestError
from minikafka.web.rest.formats import form_of, iso_of, ms_of, to_bytes, to_json, typed
from minikafka.web.rest.json_stream import JsonStream
from minikafka.web.rest.login import Login, login_of
from minikafka.web.rest.rates import Rate
from minikafka.web.rest.settings import divided

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
OBJECTS = st.lists(st.dictionaries(st.text(), JSON, max_size=3), max_size=6)


@given(OBJECTS, st.sampled_from(["", "\n", " \r\n\t"]), st.booleans(), st.data())
def test_values_come_out_of_a_stream_however_it_is_cut(
    values: list[Any], between: str, escaped: bool, data: st.DataObject
) -> None:
    texts = [json.dumps(value, ensure_ascii=escaped) for value in values]
    text = between.join(texts).encode("utf-8", "surrogatepass")
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    stream, found = JsonStream(1_000_000), []
    for begin, end in zip([0, *cuts], [*cuts, len(text)], strict=True):
        found += list(stream.feed(text[begin:end]))
    found += list(stream.feed(b"", is_last=True))
    assert found == values


@pytest.mark.parametrize("text", ['{"a": oops', "{]", "}", '{"a": 1,}', "x", '{"a" 1'])
def test_what_cannot_become_json_is_found_at_once(text: str) -> None:
    with pytest.raises(RestError, match="is not JSON"):
        list(JsonStream(100).feed(text.encode()))


@pytest.mark.parametrize("rest", ["tr", '"', '"\\u00', "[1, ", "-", "1.", "1.5e", "1E-"])
def test_what_may_become_json_waits_until_the_end(rest: str) -> None:
    stream = JsonStream(100)
    assert list(stream.feed(b'{"a": ' + rest.encode())) == []
    with pytest.raises(RestError, match="is not JSON"):
        list(stream.feed(b"", is_last=True))


def test_a_value_in_many_parts_is_parsed_once_when_its_brackets_are_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    value = {"text": '}"]\\' * 5_000, "n": [1.5e300]}
    stream, parsed = JsonStream(1_000_000), 0
    parse = stream._parse

    def counted(text: str, at: int) -> Any:
        nonlocal parsed
        parsed += len(text)
        return parse(text, at)

    monkeypatch.setattr(stream, "_parse", counted)
    text = json.dumps(value).encode()
    found = [each for at in range(len(text)) for each in stream.feed(text[at : at + 1])]
    assert found == [value]
    assert parsed < 2 * len(text)


def test_a_value_without_an_end_is_bounded() -> None:
    stream = JsonStream(100)
    assert list(stream.feed(b'"' + b"x" * 98)) == []
    with pytest.raises(RestError, match="longer than 100"):
        list(stream.feed(b"xxx"))


@pytest.mark.parametrize(
    ("accept", "chosen"),
    [
        (None, "a/x"),
        ("*/*", "a/x"),
        ("b/y", "b/y"),
        ("a/*;q=0.1, b/y;q=0.9", "b/y"),
        ("*/*;q=0.5, a/x;q=0", "b/y"),
        ("b/y;q=oops, */*;q=0.1", "a/x"),
        ("A/X", "a/x"),
    ],
)
def test_the_best_media_type_is_chosen(accept: str | None, chosen: str) -> None:
    assert media.chosen(accept, ("a/x", "b/y")) == chosen


@given(st.text(max_size=50))
def test_any_accept_is_answered_or_refused(accept: str) -> None:
    with contextlib.suppress(RestError):
        assert media.chosen(accept, ("a/x",)) == "a/x"


@given(st.none() | st.binary())
def test_binary_comes_back(data: bytes | None) -> None:
    assert to_bytes(to_json(data, media.BINARY), media.BINARY, "value") == data


@given(JSON)
def test_json_comes_back(value: Any) -> None:
    try:
        data = to_bytes(value, media.JSON, "value")
    except RestError:
        json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")
        with pytest.raises(UnicodeEncodeError):
            json.dumps(value, ensure_ascii=False).encode()
        return
    assert to_json(data, media.JSON) == value


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"1e999", "too large"),
        (b"[-1E400]", "too large"),
        (b"NaN", "no JSON"),
        (b"[" * 100_000, "nested too deeply"),
    ],
)
def test_what_no_answer_could_show_as_json_is_not_json(text: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        to_json(text, media.JSON)
    assert (typed(text, media.JSON) or {})["type"] == "BINARY"


@given(st.binary(), st.sampled_from(media.FORMATS))
def test_bytes_of_any_format_are_told_with_a_type_that_they_have(data: bytes, form: str) -> None:
    shown = typed(data, form)
    assert shown is not None
    again = to_bytes(shown["data"], form_of(shown["type"], "value"), "value")
    if shown["type"] == "JSON":
        assert json.loads(again or b"null") == json.loads(data)
    else:
        assert again == data


@given(st.integers(0, 253_402_300_799_999))
def test_times_come_back(when_ms: int) -> None:
    assert ms_of(iso_of(when_ms) or "", "timestamp") == when_ms


def test_a_rate_lets_one_burst_through_and_makes_it_up() -> None:
    rate = Rate(10)
    assert rate.take(30, 1_000_000) == 0
    assert rate.take(1, 1_000_000) == 2_101
    assert rate.take(1, 1_002_200) == 0
    assert Rate(0).take(10**9, 5) == 0


def test_a_login_never_shows_its_secret() -> None:
    login = login_of("Basic " + base64.b64encode(b"alice:s3cret:x").decode())
    assert login == Login("alice", "s3cret:x")
    assert "s3cret" not in repr(login)
    assert login_of("bearer t0ken") == Login(secret="t0ken")


@pytest.mark.parametrize("header", [None, "", "Basic", "Basic ?", "Basic YQ==", "Digest x=1"])
def test_a_request_without_a_login_is_refused(header: str | None) -> None:
    with pytest.raises(RestError) as caught:
        login_of(header)
    assert caught.value.kind.code == 40101


def test_settings_are_divided_among_the_proxy_and_its_clients() -> None:
    found = divided(
        {
            "bootstrap.servers": "b:1",
            "consumer.request.timeout.ms": "7",
            "consumer.isolation.level": "read_committed",
            "producer.acks": "1",
            "client.rack": "r",
        }
    )
    assert found.rest.request_timeout_ms == 7
    assert found.consumer["isolation.level"] == "read_committed"
    assert (found.consumer["client.rack"], "client.rack" in found.admin) == ("r", False)
    assert found.producer["acks"] == "1"
    assert [one["bootstrap.servers"] for one in found[1:]] == ["b:1"] * 3


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"no.such.key": "1"}, "unknown key"),
        ({"producer.acks": "2"}, "acks=2"),
        ({"minikafka.rest.authentication": "sasl"}, "needs security.protocol"),
        (
            {
                "minikafka.rest.authentication": "sasl",
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.username": "u",
            },
            "sasl.username: cannot be given",
        ),
        (
            {
                "minikafka.rest.authentication": "sasl",
                "security.protocol": "SASL_PLAINTEXT",
                "producer.sasl.password": "p",
            },
            "producer.sasl.password: cannot be given",
        ),
    ],
)
def test_wrong_settings_are_named(settings: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        divided({"bootstrap.servers": "b:1", **settings})
