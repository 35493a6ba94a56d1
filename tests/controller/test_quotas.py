"""Client quotas at the controller: which are set, which are refused, and what is written."""

from collections.abc import Mapping

import pytest

from minikafka.controller.metadata.quotas import alter_quotas
from minikafka.protocol.control.image import MetadataImage
from minikafka.protocol.control.records import decode_record, encode_record
from minikafka.protocol.errors import ApiError, ErrorCode
from minikafka.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntryData,
    EntryResult,
    OpData,
)
from minikafka.protocol.messages.describe_client_quotas import EntityData

from .machine import Machine

ALICE = {"user": "alice"}
ENTITY = (("user", "alice"),)
RATE, PERCENTAGE = "producer_byte_rate", "request_percentage"
INVALID = ErrorCode.INVALID_REQUEST


def entry(entity: Mapping[str, str | None], **changes: float | None) -> EntryData:
    return EntryData(
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()],
        ops=[
            OpData(key=key, value=value or 0.0, remove=value is None)
            for key, value in changes.items()
        ],
    )


def alter(machine: Machine, *entries: EntryData, validate_only: bool = False) -> list[EntryResult]:
    request = AlterClientQuotasRequest(entries=list(entries), validate_only=validate_only)
    return machine.carry_out(alter_quotas(machine.cluster, request)).entries


def codes(results: list[EntryResult]) -> list[int]:
    return [each.error_code for each in results]


def test_quotas_are_set_changed_and_removed() -> None:
    machine = Machine()
    both = {"user": "alice", "client-id": None}
    asked = entry(both, producer_byte_rate=5.0)
    results = alter(machine, entry(ALICE, producer_byte_rate=1.0, request_percentage=0.5), asked)
    assert codes(results) == [0, 0]
    assert results[1].entity == asked.entity
    assert machine.image.quotas == {
        ENTITY: {RATE: 1.0, PERCENTAGE: 0.5},
        (("client-id", None), ("user", "alice")): {RATE: 5.0},
    }
    results = alter(
        machine,
        entry(ALICE, producer_byte_rate=2.0, request_percentage=None),
        entry(both, producer_byte_rate=None),
    )
    assert codes(results) == [0, 0]
    assert machine.image.quotas == {ENTITY: {RATE: 2.0}}


def test_only_what_changes_is_written() -> None:
    machine = Machine()
    alter(machine, entry(ALICE, producer_byte_rate=1.0))
    before = len(machine.log)
    same = entry(ALICE, producer_byte_rate=1.0, request_percentage=None)
    assert codes(alter(machine, same, entry({"ip": "::1"}, connection_creation_rate=None))) == [
        0,
        0,
    ]
    assert len(machine.log) == before


def test_a_request_that_only_asks_changes_nothing() -> None:
    machine = Machine()
    good, bad = entry(ALICE, producer_byte_rate=1.0), entry(ALICE, producer_byte_rate=0.5)
    assert codes(alter(machine, good, bad, validate_only=True)) == [0, INVALID]
    assert machine.image.quotas == {}


def test_an_entity_with_one_wrong_change_keeps_what_it_has() -> None:
    machine = Machine()
    results = alter(
        machine,
        entry(ALICE, producer_byte_rate=1.0, request_percentage=-1.0),
        entry({"user": "bob"}, producer_byte_rate=1.0),
        entry({"group": "g"}, producer_byte_rate=1.0),
        entry({"ip": "localhost"}, connection_creation_rate=1.0),
    )
    assert codes(results) == [INVALID, 0, INVALID, INVALID]
    assert results[0].error_message == "Quota request_percentage must be greater than 0"
    assert results[1].error_message is None
    assert list(machine.image.quotas) == [(("user", "bob"),)]


def test_an_entity_that_is_named_twice_is_changed_twice_in_order() -> None:
    machine = Machine()
    alter(machine, entry({"ip": "::1"}, connection_creation_rate=1.0))
    results = alter(
        machine,
        entry({"ip": "::1"}, connection_creation_rate=None),
        entry({"ip": "0:0:0:0:0:0:0:1"}, connection_creation_rate=1.0),
        entry(ALICE, producer_byte_rate=1.0),
        entry(ALICE, producer_byte_rate=None),
    )
    assert codes(results) == [0] * 4
    assert machine.image.quotas == {(("ip", "::1"),): {"connection_creation_rate": 1.0}}


def test_a_request_has_a_most_of_changes() -> None:
    machine = Machine()
    asked = [entry({"user": f"u{number}"}, producer_byte_rate=1.0) for number in range(10_001)]
    with pytest.raises(ApiError, match="more than 10000 quotas"):
        alter(machine, *asked)
    assert machine.image.quotas == {}


def test_a_snapshot_keeps_the_quotas() -> None:
    machine = Machine()
    alter(
        machine,
        entry(ALICE, producer_byte_rate=1.0, request_percentage=0.5),
        entry({"client-id": None}, consumer_byte_rate=2.0),
        entry({"ip": None}, connection_creation_rate=3.0),
    )
    again = MetadataImage()
    for offset, record in enumerate(machine.image.to_records()):
        again.apply(decode_record(encode_record(record)), offset)
    assert again.quotas == machine.image.quotas
    assert len(again.quotas) == 3
