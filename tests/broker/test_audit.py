"""Scenario S-56: what is denied is told to the log in Kafka's words, and not over and over."""

import logging

import pytest

from minikafka.protocol.acls import Acl, Operation, Pattern, Permission, Resource
from minikafka.protocol.api import ApiKey
from minikafka.protocol.control.image import Delta, MetadataImage
from minikafka.protocol.messages.delete_topics import DeleteTopicsRequest
from minikafka.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from minikafka.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from minikafka.runtime.config import from_mapping
from minikafka.security.audit import LINES_MAX, REMEMBERED_MAX, SAY_AGAIN_MS, Audit, Denial
from minikafka.security.authorizer import Authorizer, Rights
from minikafka.security.authorizer_config import AuthorizerConfig
from minikafka.security.principal import user

from .conftest import MakeBroker
from .edge_support import TOPIC, batch
from .permission_rows import C, Op, T, right
from .test_permissions import STANDARD, give

LOGGER = "kafka.authorizer.logger"
START = "Principal = User:ANONYMOUS is Denied operation = "
END = " with resourceRefCount = 1 based on rule "


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, LOGGER)
    return caplog


def lines(log: pytest.LogCaptureFixture) -> list[str]:
    found = [each.getMessage() for each in log.records if each.name == LOGGER]
    log.clear()
    return found


async def test_s_56_a_denial_names_who_what_where_and_why(
    make_broker: MakeBroker, log: pytest.LogCaptureFixture
) -> None:
    broker = make_broker(**STANDARD)
    client = broker.connect()
    denied = Acl(T, "fl", Pattern.PREFIXED, "User:*", "*", Op.ALL, Permission.DENY)
    give(broker, denied, right(Op.WRITE, T))
    client.ask(DeleteTopicsRequest(topic_names=["absent"], timeout_ms=1), 5)
    data = PartitionProduceData(index=0, records=batch(b"v"))
    topics = [TopicProduceData(name=TOPIC, partition_data=[data])]
    client.ask(ProduceRequest(acks=1, timeout_ms=1000, topic_data=topics), 9)
    from_there = " from host = 10.0.0.9 on resource = "
    acl = (
        "StandardAcl[resourceType=TOPIC, resourceName=fl, patternType=PREFIXED,"
        " principal=User:*, host=*, operation=ALL, permissionType=DENY]"
    )
    assert lines(log) == [
        f"{START}DELETE{from_there}Topic:LITERAL:absent for request = DeleteTopics{END}DefaultDeny",
        f"{START}WRITE{from_there}Topic:LITERAL:flights for request = Produce{END}"
        f"MatchingAcl(acl={acl})",
    ]


async def test_what_is_left_out_of_a_list_is_no_denial(
    make_broker: MakeBroker, log: pytest.LogCaptureFixture
) -> None:
    broker = make_broker(**STANDARD)
    client = broker.connect()
    give(broker, right(Op.DESCRIBE, C))
    client.ask(MetadataRequest(topics=None), 9)
    assert lines(log) == []
    client.ask(MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)]), 9)
    assert len(lines(log)) == 1


def rights() -> Rights:
    made = Authorizer(from_mapping(AuthorizerConfig, {}))
    made.on_metadata(Delta(is_snapshot=True), MetadataImage())
    return made.rights_of(user("a\nb"), "::1")


def denial(name: str) -> Denial:
    return Denial(Operation.READ, Resource.TRANSACTIONAL_ID, name, ApiKey.END_TXN)


def test_a_denial_that_is_repeated_is_counted(log: pytest.LogCaptureFixture) -> None:
    now = [0]
    audit = Audit(lambda: now[0])
    for _ in range(4):
        audit.note(rights(), denial("x"))
    audit.note(rights(), denial("y"))
    assert len(lines(log)) == 2
    now[0] = SAY_AGAIN_MS
    audit.note(rights(), denial("x"))
    (line,) = lines(log)
    assert line.endswith("DefaultDeny (and 3 times since it was last said)")


def test_no_text_of_a_client_breaks_a_line_and_no_client_fills_the_memory(
    log: pytest.LogCaptureFixture,
) -> None:
    audit = Audit(lambda: 0)
    audit.note(rights(), denial("\x1b[31m\n" + "x" * 100_000))
    (line,) = lines(log)
    assert "TransactionalId:LITERAL:\\x1b[31m\\nxxx" in line
    assert "User:a\\nb is Denied" in line
    assert len(line) < 10_000
    for number in range(REMEMBERED_MAX + 10):
        audit.note(rights(), denial(str(number)))
    assert len(audit._said) == REMEMBERED_MAX


def test_s_56_a_request_with_many_names_does_not_fill_the_log(
    log: pytest.LogCaptureFixture,
) -> None:
    now = [0]
    audit = Audit(lambda: now[0])
    for number in range(LINES_MAX + 7):
        audit.note(rights(), denial(str(number)))
    assert len(lines(log)) == LINES_MAX
    now[0] = SAY_AGAIN_MS
    audit.note(rights(), denial("x"))
    left_out, line = lines(log)
    assert left_out == "7 more denials were not told one by one"
    assert "LITERAL:x " in line


def test_a_log_that_is_silent_costs_nothing(log: pytest.LogCaptureFixture) -> None:
    log.set_level(logging.WARNING, LOGGER)
    audit = Audit(lambda: 0)
    audit.note(rights(), denial("x"))
    assert audit._said == {}


def test_denials_are_told_while_somebody_hears_them(log: pytest.LogCaptureFixture) -> None:
    log.set_level(logging.WARNING, LOGGER)
    told: list[tuple[object, ...]] = []
    is_told = False
    audit = Audit(lambda: 0, lambda *what: told.append(what), lambda: is_told)
    who = rights()
    audit.note(who, denial("x"))
    assert (told, audit._said) == ([], {})
    is_told = True
    audit.note(who, denial("x"))
    assert told == [(who, denial("x"), 0)]
