"""Rules for records: how they are read, what they match, what is refused."""

import json
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.protocol.records.record_python import Headers
from minikafka.protocol.routes import MOST_BYTES, Condition, parse_routes

KIND = {"if": {"header": {"kind": {"equals": "order"}}}, "to": ["orders"]}
EU = {"if": {"key": {"prefix": "eu-"}}, "to": ["europe", "orders"]}
REST = {"else": True, "to": ["rest"]}


def routed(
    rules: object, key: bytes | None = None, *headers: tuple[str, bytes | None]
) -> tuple[str, ...] | None:
    return parse_routes(json.dumps(rules)).of(key, list(headers))


def test_a_record_goes_to_all_topics_of_the_rules_that_match_each_once() -> None:
    rules = [KIND, EU, REST]
    assert routed(rules, b"eu-1", ("kind", b"order")) == ("orders", "europe")
    assert routed(rules, b"us-1", ("kind", b"order")) == ("orders",)
    assert routed(rules, None, ("kind", b"ORDER")) == ("rest",)
    assert routed([KIND, EU], b"us-1") is None
    assert parse_routes(json.dumps(rules)).topics == ("orders", "europe", "rest")


def test_only_the_first_rule_counts_where_that_is_asked_for() -> None:
    rules = {"rules": [KIND, EU, REST], "first": True}
    assert routed(rules, b"eu-1", ("kind", b"order")) == ("orders",)
    assert routed(rules, b"eu-1") == ("europe", "orders")
    assert routed(rules, b"us-1") == ("rest",)


@pytest.mark.parametrize(
    ("test", "value", "holds"),
    [
        ({"equals": "a"}, b"a", True),
        ({"equals": "a"}, b"ab", False),
        ({"equals": "ä"}, "ä".encode(), True),
        ({"prefix": "a"}, b"ab", True),
        ({"prefix": "a"}, b"ba", False),
        ({"in": ["a", "b"]}, b"b", True),
        ({"in": ["a", "b"]}, b"c", False),
        ({"in": []}, b"c", False),
        ({"exists": True}, b"", True),
        ({"exists": False}, b"", False),
        ({"prefix": "a", "in": ["ab", "b"]}, b"ab", True),
        ({"prefix": "a", "in": ["ab", "b"]}, b"b", False),
    ],
)
def test_conditions(test: object, value: bytes, holds: bool) -> None:
    of_header = [{"if": {"header": {"h": test}}, "to": ["t"]}]
    of_key = [{"if": {"key": test}, "to": ["t"]}]
    wanted = ("t",) if holds else None
    assert routed(of_header, None, ("h", b"x"), ("h", value)) == wanted
    assert routed(of_key, value) == wanted


def test_what_is_not_there_equals_nothing() -> None:
    for test in ({"equals": ""}, {"prefix": ""}, {"in": [""]}, {"exists": True}):
        assert routed([{"if": {"header": {"h": test}}, "to": ["t"]}]) is None
        assert routed([{"if": {"key": test}, "to": ["t"]}]) is None
    assert (
        routed([{"if": {"header": {"h": {"equals": ""}}}, "to": ["t"]}], None, ("h", None)) is None
    )
    there = [{"if": {"header": {"h": {"exists": True}}}, "to": ["t"]}]
    assert routed(there, None, ("h", None)) == ("t",)
    assert routed([{"if": {"key": {"exists": False}}, "to": ["t"]}]) == ("t",)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "no JSON"),
        ("[" * 5_000, "no JSON"),
        ("[]", "a list of rules"),
        ("{}", "a list of rules"),
        ("7", "a list of rules"),
        ('{"rules": [], "frist": true}', "'frist' is none of"),
        ('{"rules": [], "first": 1}', '"first" must be true or false'),
        ("[7]", "rule 1: must be an object"),
        ('[{"to": ["t"]}]', 'rule 1: needs "if"'),
        ('[{"if": {}, "to": ["t"]}]', '"if" without a condition'),
        ('[{"if": {"value": {}}, "to": ["t"]}]', "'value' is none of header, key"),
        ('[{"if": {"key": {"regex": "a"}}, "to": ["t"]}]', "'regex' is none of"),
        ('[{"if": {"key": {"equals": 7}}, "to": ["t"]}]', "rule 1: key: equals must be a text"),
        ('[{"if": {"key": {"in": "a"}}, "to": ["t"]}]', "must be a list of texts"),
        ('[{"if": {"key": {"exists": "yes"}}, "to": ["t"]}]', "must be true or false"),
        ('[{"if": {"header": []}, "to": ["t"]}]', '"header" must name headers'),
        ('[{"else": true, "to": "t"}]', '"to" must be a list of topics'),
        ('[{"else": true, "to": [""]}]', '"to" must be a list of topics'),
        ('[{"else": true, "if": {}, "to": ["t"]}]', '"if" or "else", not both'),
        (json.dumps([REST | {"to": [str(n) for n in range(33)]}]), "33 topics, more than 32"),
        (" " * (MOST_BYTES + 1), "longer than 8192 bytes"),
    ],
)
def test_rules_that_cannot_be_read_say_where(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse_routes(text)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["if", "to", "else", "header", "key", "equals", "in", "exists", "rules"]
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=12,
)


@given(JSON)
def test_whatever_is_given_is_read_or_refused(given: object) -> None:
    try:
        routes = parse_routes(json.dumps(given))
    except ValueError:
        return
    assert routes.of(b"k", [("h", None)]) is None or routes.topics is not None


NAMES = st.sampled_from(["a", "b", "c"])
TEXTS = st.sampled_from(["", "x", "xy", "y"])
TESTS = st.one_of(
    st.fixed_dictionaries({"equals": TEXTS}),
    st.fixed_dictionaries({"prefix": TEXTS}),
    st.fixed_dictionaries({"in": st.lists(TEXTS, max_size=3)}),
    st.fixed_dictionaries({"exists": st.booleans()}),
)
IFS = st.fixed_dictionaries({}, optional={"header": st.dictionaries(NAMES, TESTS), "key": TESTS})


def holds_by_walking(one: Condition, key: bytes | None, headers: Headers) -> bool:
    """The meaning of a condition, from all headers in their order."""
    value, is_there = key, key is not None
    if one.header is not None:
        value, is_there = None, False
        for name, found in headers:
            if name == one.header:
                value, is_there = found, True
    if one.operation == "exists":
        return is_there is one.is_wanted
    if value is None:
        return False
    return value.startswith(one.wanted[0]) if one.operation == "prefix" else value in one.wanted


@given(
    st.lists(IFS.filter(lambda one: any(one.values())), min_size=1, max_size=4),
    st.none() | TEXTS.map(str.encode),
    st.lists(st.tuples(NAMES, st.none() | TEXTS.map(str.encode))),
)
def test_conditions_hold_as_if_each_walked_all_headers(
    ifs: list[object], key: bytes | None, headers: list[tuple[str, bytes | None]]
) -> None:
    rules = [{"if": one, "to": [f"t{at}"]} for at, one in enumerate(ifs)]
    routes = parse_routes(json.dumps(rules))
    wanted = [
        topic
        for rule in routes.rules
        if all(holds_by_walking(one, key, headers) for one in rule.conditions)
        for topic in rule.to
    ]
    assert routes.of(key, headers) == (tuple(wanted) or None)


def test_the_headers_of_a_record_are_walked_once_however_many_rules_there_are() -> None:
    walks = 0

    class Walked(list[tuple[str, bytes | None]]):
        def __iter__(self) -> Iterator[tuple[str, bytes | None]]:
            nonlocal walks
            walks += 1
            return super().__iter__()

    rules = [{"if": {"header": {f"h{at}": {"exists": True}}}, "to": ["t"]} for at in range(100)]
    assert parse_routes(json.dumps(rules)).of(None, Walked([("a", b""), ("h7", None)])) == ("t",)
    assert walks == 1
