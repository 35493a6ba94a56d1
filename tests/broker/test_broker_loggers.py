"""Levels of a broker's loggers, described and altered at its edge (KIP-412)."""

import logging
from collections.abc import Sequence

import pytest

from minikafka import AdminError, ConfigChange, ConfigResource
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import alter_configs as whole
from minikafka.protocol.messages import incremental_alter_configs as incremental
from minikafka.protocol.messages.describe_configs import (
    ConfigSource,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResult,
    ResourceType,
)
from minikafka.protocol.messages.incremental_alter_configs import ConfigOperation
from minikafka.runtime.log_levels import LogLevels

from ..simulation.stage import Stage, staged
from .conftest import MakeBroker
from .edge_support import FakeBroker, settle

LOGGER = ResourceType.BROKER_LOGGER
PACKAGE, MODULE = "minikafka.broker.replication", "minikafka.broker.replication.fetcher"
Change = tuple[str, str | None, int]


@pytest.fixture
def broker(make_broker: MakeBroker) -> FakeBroker:
    """Broker 1, with loggers of its own, so that no other test says more or less."""
    made = make_broker()
    manager = logging.Manager(logging.RootLogger(logging.INFO))
    manager.getLogger(MODULE)
    made.runtime.log_levels = LogLevels(manager)
    return made


def described(broker: FakeBroker, name: str = "1", *keys: str) -> DescribeConfigsResult:
    resource = DescribeConfigsResource(
        resource_type=LOGGER, resource_name=name, configuration_keys=list(keys) or None
    )
    request = DescribeConfigsRequest(resources=[resource], include_synonyms=True)
    (result,) = broker.connect().ask(request, 4).results
    assert isinstance(result, DescribeConfigsResult)
    return result


def levels(broker: FakeBroker, *keys: str) -> dict[str, str | None]:
    return {each.name: each.value for each in described(broker, "1", *keys).configs}


async def alter(
    broker: FakeBroker, changes: Sequence[Change], name: str = "1", *, validate_only: bool = False
) -> ErrorCode:
    configs = [
        incremental.AlterableConfig(name=logger, value=level, config_operation=operation)
        for logger, level, operation in changes
    ]
    resource = incremental.AlterConfigsResource(
        resource_type=LOGGER, resource_name=name, configs=configs
    )
    client = broker.connect()
    client.send(
        incremental.IncrementalAlterConfigsRequest(
            resources=[resource], validate_only=validate_only
        ),
        0,
    )
    await settle()
    ((result,),) = (response.responses for response in client.responses())
    assert (result.resource_type, result.resource_name) == (LOGGER, name)
    assert broker.controller.requests == []
    return ErrorCode(result.error_code)


async def test_each_logger_is_described_with_the_level_in_force(broker: FakeBroker) -> None:
    result = described(broker)
    assert result.error_code == ErrorCode.NONE
    first = result.configs[0]
    assert (first.config_source, first.read_only, first.is_sensitive, first.synonyms) == (
        ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG,
        False,
        False,
        [],
    )
    packages = ["minikafka", "minikafka.broker", PACKAGE]
    assert levels(broker) == dict.fromkeys([*packages, MODULE, "root"], "INFO")
    assert levels(broker, MODULE) == {MODULE: "INFO"}


async def test_a_level_is_set_and_taken_back(
    broker: FakeBroker, caplog: pytest.LogCaptureFixture
) -> None:
    assert await alter(broker, [(PACKAGE, "DEBUG", 0), ("root", "WARN", 0)]) == ErrorCode.NONE
    assert levels(broker, "root", "minikafka.broker", PACKAGE, MODULE) == {
        "minikafka.broker": "WARN",
        PACKAGE: "DEBUG",
        MODULE: "DEBUG",
        "root": "WARN",
    }
    assert f"logger {PACKAGE} has level DEBUG" in caplog.messages
    assert await alter(broker, [(PACKAGE, "", ConfigOperation.DELETE)]) == ErrorCode.NONE
    assert levels(broker, MODULE) == {MODULE: "WARN"}
    assert f"logger {PACKAGE} has no level of its own any more" in caplog.messages


@pytest.mark.parametrize("level", ["TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL"])
async def test_every_level_of_kafka_is_known(broker: FakeBroker, level: str) -> None:
    assert await alter(broker, [(MODULE, level, 0)]) == ErrorCode.NONE
    assert levels(broker, MODULE) == {MODULE: level}


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ((MODULE, "ERROR", ConfigOperation.APPEND), ErrorCode.INVALID_REQUEST),
        ((MODULE, "ERROR", ConfigOperation.SUBTRACT), ErrorCode.INVALID_REQUEST),
        ((MODULE, "ERROR", 9), ErrorCode.INVALID_REQUEST),
        ((MODULE, "LOUD", ConfigOperation.SET), ErrorCode.INVALID_CONFIG),
        ((MODULE, "x" * 32_000, ConfigOperation.SET), ErrorCode.INVALID_CONFIG),
        ((MODULE, "warn", ConfigOperation.SET), ErrorCode.INVALID_CONFIG),
        ((MODULE, None, ConfigOperation.SET), ErrorCode.INVALID_CONFIG),
        (("a.b", "ERROR", ConfigOperation.SET), ErrorCode.INVALID_CONFIG),
        (("x" * 32_767, "ERROR", ConfigOperation.SET), ErrorCode.INVALID_CONFIG),
        (("a.b", None, ConfigOperation.DELETE), ErrorCode.INVALID_CONFIG),
        (("root", None, ConfigOperation.DELETE), ErrorCode.INVALID_REQUEST),
        ((PACKAGE, "ERROR", ConfigOperation.SET), ErrorCode.INVALID_REQUEST),
    ],
)
async def test_one_change_that_is_refused_keeps_back_all_of_a_request(
    broker: FakeBroker, change: Change, error: ErrorCode
) -> None:
    before = levels(broker)
    assert await alter(broker, [(PACKAGE, "FATAL", 0), change]) == error
    assert levels(broker) == before


async def test_what_is_only_validated_changes_nothing(broker: FakeBroker) -> None:
    assert await alter(broker, [(MODULE, "FATAL", 0)], validate_only=True) == ErrorCode.NONE
    assert levels(broker, MODULE) == {MODULE: "INFO"}


@pytest.mark.parametrize("name", ["2", "", "one", "y" * 32_767])
async def test_only_the_named_broker_answers(broker: FakeBroker, name: str) -> None:
    assert described(broker, name).error_code == ErrorCode.INVALID_REQUEST
    assert await alter(broker, [(MODULE, "FATAL", 0)], name) == ErrorCode.INVALID_REQUEST
    assert levels(broker, MODULE) == {MODULE: "INFO"}


async def test_whole_configurations_of_loggers_are_refused_as_in_kafka(broker: FakeBroker) -> None:
    config = whole.AlterableConfig(name=MODULE, value="FATAL")
    resource = whole.AlterConfigsResource(resource_type=LOGGER, resource_name="1", configs=[config])
    client = broker.connect()
    client.send(whole.AlterConfigsRequest(resources=[resource]), 1)
    await settle()
    ((result,),) = (response.responses for response in client.responses())
    assert result.error_code == ErrorCode.INVALID_REQUEST
    assert levels(broker, MODULE) == {MODULE: "INFO"}


@staged(brokers=2, broker={})
async def test_each_broker_of_a_cluster_has_levels_of_its_own(stage: Stage) -> None:
    first, second = ConfigResource.broker_logger(1), ConfigResource.broker_logger(2)
    unknown, topic = [ConfigChange("none", "INFO")], ConfigResource.topic("none")
    wanted = {first: unknown, second: [ConfigChange("root", "WARN")], topic: unknown}
    with pytest.raises(AdminError) as caught:
        await stage.admin(lambda admin: admin.incremental_alter_configs(wanted))
    assert {name: error.code for name, error in caught.value.errors.items()} == {
        "broker_logger 1": ErrorCode.INVALID_CONFIG,
        "topic none": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    found = await stage.admin(lambda admin: admin.describe_configs([first, second]))
    assert [found[each]["root"].value for each in (first, second)] == ["INFO", "WARN"]
