"""The forms of changes: what is taken, what is refused, and which command does the same."""

import shlex

import click
import pytest

from minikafka.deploy.cli import minikafka
from minikafka.web.console.changing import BY_ADMIN, resource_of
from minikafka.web.console.views.changes import (
    CHANGES,
    BadField,
    checked,
    pairs,
    record_bytes,
    shell_line,
)

GIVEN = {
    "topic": "flights",
    "again": "flights",
    "partitions": "6",
    "partition": "2",
    "offset": "17",
    "replicas": "3",
    "configs": "retention.ms=1000\ncleanup.policy=compact,delete",
    "key_form": "text",
    "key": "k",
    "value": "it's",
    "headers": "a=b",
    "of": "topic:flights",
    "group": "<b>",
    "plan": '{"version": 1, "partitions": []}',
}


def test_every_change_is_carried_out_by_somebody() -> None:
    assert {*BY_ADMIN, "produce"} == set(CHANGES)


@pytest.mark.parametrize("name", CHANGES)
def test_the_command_of_a_change_is_one_that_there_is(name: str) -> None:
    change = CHANGES[name]
    given = {**GIVEN, "key": "retention.ms"} if name == "set-config" else GIVEN
    arguments, stdin = change.command(checked(change, given))
    context = click.Context(minikafka)
    command = minikafka.get_command(context, arguments[0])
    assert command is not None
    flags = ["--bootstrap-server", "h:1", *arguments[1:]]
    with command.make_context(arguments[0], flags, resilient_parsing=True):
        pass
    line = shell_line("h:1", arguments, stdin)
    assert shlex.split(line)[:2] == ["minikafka", arguments[0]]
    assert not stdin or shlex.split(line)[-1] == stdin


def test_fields_that_are_needed_and_numbers_are_checked() -> None:
    change = CHANGES["add-partitions"]
    for given, why in (
        ({"topic": "  ", "partitions": "1"}, "Topic: is needed"),
        ({"topic": "t", "partitions": "many"}, "not a whole number"),
        ({"topic": "t", "partitions": "9" * 20}, "not a whole number"),
        ({"topic": "t", "partitions": "\u0661"}, "not a whole number"),
    ):
        with pytest.raises(BadField, match=why):
            checked(change, given)
    with pytest.raises(BadField, match="not among the choices"):
        checked(CHANGES["produce"], {"topic": "t", "key_form": "yaml"})


def test_a_record_is_text_or_bytes_or_nothing() -> None:
    assert record_bytes("Value", "a\r\nb", "text") == b"a\nb"
    assert record_bytes("Value", "00 ff", "hex") == b"\x00\xff"
    assert record_bytes("Value", "x", "null") is None
    with pytest.raises(BadField, match="hexadecimal"):
        record_bytes("Value", "0g", "hex")


def test_lines_that_are_no_pairs_are_named() -> None:
    assert pairs("Configs", "a=1\n\n b = 2=3 ") == {"a": "1", "b": "2=3"}
    with pytest.raises(BadField, match="'nonsense' is not key=value"):
        pairs("Configs", "nonsense")


def test_owners_of_settings_are_topics_and_brokers() -> None:
    assert str(resource_of("topic:a:b")) == "topic a:b"
    assert str(resource_of("broker:")) == "broker default"
    for text in ("", "topic:", "broker:x", "group:g"):
        with pytest.raises(BadField):
            resource_of(text)
