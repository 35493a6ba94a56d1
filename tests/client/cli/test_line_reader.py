import pytest

from minikafka.client.cli.line_reader import BadLine, LineReader
from minikafka.runtime.errors import ConfigError

ALL = {"parse.key": "true", "parse.headers": "true"}


@pytest.mark.parametrize(
    ("properties", "line", "record"),
    [
        ({}, b"a\tb", (None, b"a\tb", ())),
        ({}, b"", (None, b"", ())),
        ({"parse.key": "true"}, b"k\tv\tw", (b"k", b"v\tw", ())),
        ({"parse.key": "true", "key.separator": " : "}, b"k : v", (b"k", b"v", ())),
        ({"parse.key": "true", "key.separator": " "}, b" v", (b"", b"v", ())),
        ({"parse.headers": "true"}, b"h:1,i:\tv", (None, b"v", (("h", b"1"), ("i", b"")))),
        (ALL, b"h:1:2\tk\tv", (b"k", b"v", (("h", b"1:2"),))),
        (ALL | {"null.marker": "~"}, b"~\t~\t~", (None, None, ())),
        (ALL | {"null.marker": "~"}, b"h:~\tk\tv", (b"k", b"v", (("h", None),))),
        ({"parse.key": "true", "ignore.error": "true"}, b"v", (None, b"v", ())),
        (ALL | {"ignore.error": "true"}, b"h\tk\tv", (b"k", b"v", (("h", None),))),
        (
            ALL
            | {
                "headers.delimiter": "|",
                "headers.separator": ";",
                "headers.key.separator": "=",
                "key.separator": "!",
            },
            b"h=1;i=2|k!v",
            (b"k", b"v", (("h", b"1"), ("i", b"2"))),
        ),
        ({"parse.key": "true"}, b"\xff\t\xfe", (b"\xff", b"\xfe", ())),
    ],
)
def test_lines(properties: dict[str, str], line: bytes, record: object) -> None:
    assert LineReader(properties).read(line, 1) == record


@pytest.mark.parametrize(
    ("properties", "line", "words"),
    [
        ({"parse.key": "true"}, b"kv", "No key separator found on line number 7: 'kv'"),
        ({"parse.headers": "true"}, b"kv", "No headers delimiter found on line number 7: 'kv'"),
        (
            {"parse.headers": "true"},
            b"h1\tv",
            "No header key separator found in pair 'h1' on line number 7",
        ),
        (ALL | {"null.marker": "~"}, b"~:1\tk\tv", "line number 7 is the null marker"),
    ],
)
def test_bad_lines(properties: dict[str, str], line: bytes, words: str) -> None:
    with pytest.raises(BadLine) as bad:
        LineReader(properties).read(line, 7)
    assert words in str(bad.value)


@pytest.mark.parametrize(
    "properties",
    [
        {"parse.keys": "true"},
        {"parse.key": "yes"},
        {"key.separator": ""},
        {"headers.separator": ":"},
    ],
)
def test_bad_properties(properties: dict[str, str]) -> None:
    with pytest.raises(ConfigError):
        LineReader(properties)
