"""Datagen: the same records for the same seed, at a rate, and a restart that goes on."""

import pytest

from minikafka.connect.api import ConnectError
from minikafka.connect.config_def import BadConfig
from minikafka.connect.connectors.datagen import Datagen, DatagenTask
from minikafka.connect.connectors.datagen_templates import TEMPLATES
from minikafka.connect.data import BOOLEAN, FLOAT64, INT32, INT64, STRING

from .support import FakeOffsets, drain, started

PROPS = {"topic": "t", "template": "orders", "rate": "0", "start.time.ms": "1000", "count": "7"}
TYPES = {INT32: int, INT64: int, FLOAT64: float, STRING: str, BOOLEAN: bool}


def test_records_are_a_function_of_the_seed_and_their_number() -> None:
    once, twice = (drain(started(DatagenTask(), PROPS)) for _ in range(2))
    assert once == twice
    assert [record.value["order_id"] for record in once] == list(range(7))
    assert [record.timestamp_ms for record in once] == [1000 + number for number in range(7)]
    other = drain(started(DatagenTask(), {**PROPS, "seed": "5"}))
    assert [record.value for record in other] != [record.value for record in once]


@pytest.mark.parametrize("name", TEMPLATES)
def test_values_fit_their_schema(name: str) -> None:
    for record in drain(started(DatagenTask(), {**PROPS, "template": name})):
        assert record.value_schema == TEMPLATES[name].schema
        types = {field.name: TYPES[field.schema] for field in record.value_schema.fields}
        assert {field: type(value) for field, value in record.value.items()} == types
        assert record.key == record.value[TEMPLATES[name].key]


@pytest.mark.parametrize("seen", range(5))
def test_x_35_a_killed_task_goes_on_behind_what_was_committed(seen: int) -> None:
    whole = drain(started(DatagenTask(), PROPS))
    offsets, props = FakeOffsets(), {**PROPS, "batch.size": "2"}
    killed = started(DatagenTask(), props)
    batches = [killed.poll() or [] for _ in range(seen)]
    before = [record for batch in batches for record in batch]
    offsets.commit(before)
    killed.poll()
    assert before + drain(started(DatagenTask(), props, offsets)) == whole


def test_tasks_share_the_numbers() -> None:
    connector = Datagen()
    connector.props = PROPS
    shares = [drain(started(DatagenTask(), props)) for props in connector.task_configs(3)]
    assert [[record.value["order_id"] for record in share] for share in shares] == [
        [0, 3, 6],
        [1, 4],
        [2, 5],
    ]


def test_records_come_at_the_rate_and_a_long_pause_is_not_caught_up_with() -> None:
    clock = [100.0]
    task = DatagenTask()
    task.now = lambda: clock[0]
    started(task, {**PROPS, "rate": "10", "count": "0"})
    counts = []
    for at in (100.0, 100.05, 100.1, 100.55, 200.0, 200.05):
        clock[0] = at
        counts.append(len(task.poll() or []))
    assert counts == [1, 0, 1, 4, 11, 0]


def test_what_is_out_of_bounds_is_refused() -> None:
    with pytest.raises(BadConfig, match="template: must be one of orders, users, clickstream"):
        Datagen.config.parse({"topic": "t", "template": "cars"})
    with pytest.raises(BadConfig, match="rate: must be between 0 and"):
        Datagen.config.parse({"topic": "t", "rate": "-1"})


def test_offsets_that_are_no_numbers_are_refused() -> None:
    alter = Datagen().alter_offsets
    assert alter(PROPS, {(): {"next": 3}, ((),): None})
    with pytest.raises(ConnectError, match="an offset is"):
        alter(PROPS, {(): {"next": "3"}})
