"""docs/compatibility.md is about this broker and these tests."""

import re

from .clients import FOREIGN
from .observer import Requests
from .page import (
    PAGE,
    ROOT,
    STREAMS,
    advertised,
    api_name,
    apis,
    ranges,
    read,
    render,
    streams_library,
)

TEST = re.compile(r"`(test_\w+\.py)::(test_\w+)[^`]*`")
ROW = re.compile(r"^\| (\d+) \| (\w+) \| ([-0-9, ]+) \|", re.M)


def test_the_page_names_every_api_of_the_broker_and_its_versions() -> None:
    shown = {(int(key), name, spoken) for key, name, spoken in ROW.findall(PAGE.read_text())}
    assert shown == {(int(key), api_name(key), advertised(key)) for key in apis()}


def test_every_client_is_on_the_page() -> None:
    assert all(f"| {client} |" in PAGE.read_text() for client in FOREIGN)


def test_every_streams_library_is_on_the_page_in_its_version() -> None:
    assert STREAMS.format(library=streams_library()) in PAGE.read_text()


def test_every_test_on_the_page_exists() -> None:
    found = TEST.findall(PAGE.read_text())
    assert found
    for module, function in set(found):
        source = (ROOT / "tests" / "compat" / module).read_text()
        assert f"def {function}(" in source, function


def test_requests_are_read_off_a_stream_however_it_is_cut() -> None:
    first = (11).to_bytes(4, "big") + b"\0\1\0\15" + b"1234567"
    second = (5).to_bytes(4, "big") + b"\0\3\0\2" + b"x"
    stream = first + second + first
    for cut in range(1, len(stream)):
        requests = Requests()
        parts = [stream[at : at + cut] for at in range(0, len(stream), cut)]
        assert [one for part in parts for one in requests.feed(part)] == [(1, 13), (3, 2), (1, 13)]


def test_a_page_tells_what_was_seen() -> None:
    observed = [
        {"test": "test_a.py::test_much[x]", "client": "aiokafka", "requests": [[1, 4], [3, 5]]},
        {"test": "test_a.py::test_little[y]", "client": "aiokafka", "requests": [[3, 5]]},
        {"test": "test_a.py::test_little[y]", "client": "brokers", "requests": [[1, 17]]},
    ]
    passed = dict.fromkeys(("test_a.py::test_much[x]", "test_a.py::test_s_13_often[x]"), "aiokafka")
    page = render(read({"passed": passed, "observed": observed}))
    assert "| Fetch | 4 | aiokafka | `test_a.py::test_much[x]` |" in page
    assert "| Metadata | 5 | aiokafka | `test_a.py::test_little[y]` |" in page
    assert "| Fetch | 17 | brokers | `test_a.py::test_little[y]` |" in page
    assert "| much | yes |" in page
    assert "| often | yes |" in page
    assert ranges([5, 1, 2, 0]) == "0-2, 5"
