"""The changes that the console offers: their forms, and the commands that do the same. Pure.

`changing.py` carries them out. A console that only reads still shows the forms, for the commands.
"""

import json
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from ....runtime.errors import MinikafkaError

Given = Mapping[str, str]
Command = Callable[[Given], tuple[tuple[str, ...], str]]
"""Returns the arguments after `minikafka`, and the text for the command's standard input."""
MOST_OFFSET: Final = 2**62
MOST_PARTITIONS: Final = 10_000
MOST_REPLICAS: Final = 1_000
STDIN: Final = "/dev/stdin"


class BadField(MinikafkaError):
    """A field of a form cannot be used; the message names the field and the reason."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a form."""

    name: str
    label: str
    kind: str = "text"
    """The kind of input: text, number, long or choice."""
    hint: str = ""
    default: str = ""
    is_needed: bool = True
    choices: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Change:
    """A kind of change of the cluster, with its form."""

    title: str
    says: str
    """The consequence of the change, as a sentence."""
    verb: str
    fields: tuple[Field, ...]
    command: Command
    back: Callable[[Given], str]
    """Returns the path of the page to continue with."""
    here: str = "/topics"
    is_grave: bool = False
    """True if the change loses something that cannot be brought back."""


def checked(change: Change, given: Given) -> dict[str, str]:
    """Check the fields of a form and fill in defaults.

    Raise BadField if one is missing or wrong.
    """
    found: dict[str, str] = {}
    for field in change.fields:
        text = given.get(field.name, field.default)
        if field.kind != "long":
            text = text.strip()
        if field.is_needed and not text:
            raise BadField(f"{field.label}: is needed")
        if field.kind == "number" and text:
            number(field.label, text)
        if field.choices and text not in [value for value, _ in field.choices]:
            raise BadField(f"{field.label}: {text!r} is not among the choices")
        found[field.name] = text
    return found


def number(label: str, text: str, most: int = MOST_OFFSET) -> int:
    """Parse a whole number.

    Raise BadField if it is not one, or is not from `-most` to `most`.
    """
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 20):
        raise BadField(f"{label}: {text[:50]!r} is not a whole number")
    value = int(text)
    if abs(value) > most:
        raise BadField(f"{label}: {text} is not from -{most} to {most}")
    return value


def pairs(label: str, text: str) -> dict[str, str]:
    """Parse `key=value` lines; raise BadField, which names the line, for any other line."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        key, equals, value = line.partition("=")
        if line.strip() and not (equals and key.strip()):
            raise BadField(f"{label}: {line[:80]!r} is not key=value")
        if line.strip():
            found[key.strip()] = value.strip()
    return found


def record_bytes(label: str, text: str, form: str) -> bytes | None:
    """Return the bytes of a key or value that was typed as text or hexadecimal; None for null.

    Raise BadField if the text is not hexadecimal.
    """
    if form == "null":
        return None
    if form == "text":
        # A browser sends line ends as CR LF, whatever was typed.
        return text.replace("\r\n", "\n").encode()
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise BadField(f"{label}: is not hexadecimal") from None


def shell_line(bootstrap: str, arguments: tuple[str, ...], stdin: str = "") -> str:
    """Write a command line for the shell, with the text for its standard input."""
    first, *rest = arguments
    line = shlex.join(["minikafka", first, "--bootstrap-server", bootstrap, *rest])
    return f"{line} <<< {shlex.quote(stdin)}" if stdin else line


# -- the commands


def _create_topic(given: Given) -> tuple[tuple[str, ...], str]:
    arguments = ["topics", "--create", "--topic", given["topic"]]
    for name, flag in (("partitions", "--partitions"), ("replicas", "--replication-factor")):
        if given[name]:
            arguments += [flag, given[name]]
    for key, value in pairs("Configs", given["configs"]).items():
        arguments += ["--config", f"{key}={value}"]
    return tuple(arguments), ""


def _delete_records(given: Given) -> tuple[tuple[str, ...], str]:
    one = {
        "topic": given["topic"],
        "partition": number("Partition", given["partition"]),
        "offset": number("Before offset", given["offset"]),
    }
    text = json.dumps({"partitions": [one], "version": 1})
    return ("delete-records", "--offset-json-file", STDIN), text


def _produce(given: Given) -> tuple[tuple[str, ...], str]:
    arguments = ["console-producer", "--topic", given["topic"]]
    if given["key_form"] == "null":
        return tuple(arguments), given["value"]
    arguments += ["--reader-property", "parse.key=true"]
    return tuple(arguments), f"{given['key']}\t{given['value']}"


def resource_flags(owner: str) -> tuple[str, ...]:
    """Return the flags of `configs` for `topic:NAME`, `broker:ID` or `broker:` (all brokers)."""
    kind, _, name = owner.partition(":")
    if kind == "topic":
        return ("--entity-type", "topics", "--entity-name", name)
    if name:
        return ("--entity-type", "brokers", "--entity-name", name)
    return ("--entity-type", "brokers", "--entity-default")


def _set_config(given: Given) -> tuple[tuple[str, ...], str]:
    owner = resource_flags(given["of"])
    if given["value"] == "":
        return ("configs", "--alter", *owner, "--delete-config", given["key"]), ""
    value = f"[{given['value']}]" if "," in given["value"] else given["value"]
    return ("configs", "--alter", *owner, "--add-config", f"{given['key']}={value}"), ""


def _elect(given: Given) -> tuple[tuple[str, ...], str]:
    arguments = ("leader-election", "--election-type", "preferred")
    if not given["topic"]:
        return (*arguments, "--all-topic-partitions"), ""
    return (*arguments, "--topic", given["topic"], "--partition", given["partition"]), ""


def _reassign(flag: str) -> Command:
    def command(given: Given) -> tuple[tuple[str, ...], str]:
        return ("reassign-partitions", flag, "--reassignment-json-file", STDIN), given["plan"]

    return command


def _abort(given: Given) -> tuple[tuple[str, ...], str]:
    where = ("--topic", given["topic"], "--partition", given["partition"])
    return ("transactions", "abort", *where, "--start-offset", given["offset"]), ""


def _to_topic(given: Given) -> str:
    return f"/topics/{quote(given['topic'], safe='')}"


TOPIC: Final = Field("topic", "Topic")
PARTITION: Final = Field("partition", "Partition", "number", default="0")
FORMS: Final = (("text", "text"), ("hex", "hexadecimal"), ("null", "none"))

CHANGES: Final[Mapping[str, Change]] = {
    "create-topic": Change(
        "Create a topic",
        "Partitions are spread over the brokers. They can be added later, never taken away.",
        "Create",
        (
            Field("topic", "Name", hint="Letters, digits, dots, dashes, underscores."),
            Field(
                "partitions", "Partitions", "number", "Empty: as the brokers are set.", "", False
            ),
            Field("replicas", "Replicas", "number", "Empty: as the brokers are set.", "", False),
            Field("configs", "Configs", "long", "key=value, one a line.", "", False),
        ),
        _create_topic,
        _to_topic,
    ),
    "delete-topic": Change(
        "Delete a topic",
        "All its records are lost, and cannot be brought back.",
        "Delete",
        (TOPIC, Field("again", "The name again", hint="Type it, so that it is the right one.")),
        lambda given: (("topics", "--delete", "--topic", given["topic"]), ""),
        lambda given: "/topics",
        is_grave=True,
    ),
    "add-partitions": Change(
        "Add partitions",
        "Records with a key go to other partitions from then on.",
        "Add",
        (TOPIC, Field("partitions", "Partitions in all", "number")),
        lambda given: (
            ("topics", "--alter", "--topic", given["topic"], "--partitions", given["partitions"]),
            "",
        ),
        _to_topic,
    ),
    "delete-records": Change(
        "Delete records",
        "Records before the offset are lost, and cannot be brought back.",
        "Delete",
        (TOPIC, PARTITION, Field("offset", "Before offset", "number", "-1: all there are.")),
        _delete_records,
        _to_topic,
        is_grave=True,
    ),
    "produce": Change(
        "Produce a record",
        "The record is acknowledged by every replica in sync.",
        "Produce",
        (
            TOPIC,
            Field("partition", "Partition", "number", "Empty: by the key.", "", False),
            Field("key_form", "Key as", "choice", default="null", choices=FORMS),
            Field("key", "Key", is_needed=False),
            Field("value_form", "Value as", "choice", default="text", choices=FORMS),
            Field("value", "Value", "long", is_needed=False),
            Field("headers", "Headers", "long", "key=value, one a line.", "", False),
        ),
        _produce,
        lambda given: _to_topic(given) + "/messages",
    ),
    "set-config": Change(
        "Change a setting",
        "The setting is in force at once. An empty value takes it back to its default.",
        "Change",
        (
            Field("of", "Of", hint="topic:NAME, broker:ID, or broker: for all brokers."),
            Field("key", "Setting"),
            Field("value", "Value", is_needed=False),
        ),
        _set_config,
        lambda given: f"/configs?of={quote(given['of'], safe=':')}",
        here="/configs",
    ),
    "delete-group": Change(
        "Delete a group",
        "Its committed offsets are forgotten. A group with members cannot be deleted.",
        "Delete",
        (Field("group", "Group"),),
        lambda given: (("consumer-groups", "--delete", "--group", given["group"]), ""),
        lambda given: "/groups",
        here="/groups",
        is_grave=True,
    ),
    "elect-preferred": Change(
        "Elect preferred leaders",
        "Partitions go back to the first of their replicas, where it is in sync.",
        "Elect",
        (
            Field("topic", "Topic", hint="Empty: every partition of the cluster.", is_needed=False),
            Field("partition", "Partition", "number", default="0", is_needed=False),
        ),
        _elect,
        lambda given: "/",
        here="/",
    ),
    "reassign": Change(
        "Move replicas",
        "New replicas are filled from the leader, then old ones are removed.",
        "Move",
        (Field("plan", "Plan", "long", "As reassign-partitions --generate prints it."),),
        _reassign("--execute"),
        lambda given: "/reassignments",
        here="/reassignments",
    ),
    "cancel-reassignment": Change(
        "Cancel a move",
        "The partitions keep the replicas they had before.",
        "Cancel the move",
        (Field("plan", "Partitions", "long"),),
        _reassign("--cancel"),
        lambda given: "/reassignments",
        here="/reassignments",
    ),
    "abort-transaction": Change(
        "Abort a transaction on a partition",
        "Its records there never count. Only for one that its coordinator does not know any more.",
        "Abort",
        (TOPIC, PARTITION, Field("offset", "First offset", "number")),
        _abort,
        lambda given: "/transactions",
        here="/transactions",
        is_grave=True,
    ),
}
