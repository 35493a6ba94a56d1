"""S-55: no value of a sensitive key is in an answer, an error, a printed object or a dump."""

import logging
from functools import partial

import pytest

from minikafka.broker.settings import TABLES as TABLES_OF_BROKERS
from minikafka.broker.settings import read_settings
from minikafka.client.cli.dump_segment import decode_metadata
from minikafka.client.config import AdminConfig, ProducerConfig, configured
from minikafka.controller.config import ControllerConfig, read_config
from minikafka.controller.metadata.configuration import incremental_alter
from minikafka.deploy.config_docs import TABLES
from minikafka.protocol.control.messages import ForwardedRequest, HelloAnswer
from minikafka.protocol.control.records import BROKER, ConfigRecord, encode_record
from minikafka.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from minikafka.runtime.config import from_mapping, settings_of
from minikafka.runtime.errors import ConfigError

from ..controller.machine import Machine
from .conftest import MakeBroker
from .edge_support import TOPIC
from .test_edge_configs import altering, ask, change

SECRET = "hunter2-and-more"
ROWS = [(row, table) for table in TABLES.values() for row in settings_of(table)]
OF_TABLES = {row.key: table for row, table in ROWS if row.secret}
JAAS = "listener.name.outside.plain.sasl.jaas.config"
KEYS = sorted({*OF_TABLES, JAAS, "listener.name.outside.ssl.keystore.password"})
REQUIRED = {"node.id": "1", "controller.quorum.bootstrap.servers": "c:1"}
OF_WORKERS = {
    "key.converter": "StringConverter",
    "value.converter": "StringConverter",
    "offset.storage.file.filename": "offsets",
}
OUTSIDE = {
    "listeners": "OUTSIDE://127.0.0.1:9092",
    "listener.security.protocol.map": "OUTSIDE:SASL_PLAINTEXT",
    "listener.name.outside.sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
}
CONTROLLERS = {row.key for row in settings_of(ControllerConfig)}
TOPIC_KIND = 2


def test_s_55_the_tables_know_which_of_their_keys_are_sensitive() -> None:
    """A password or a secret that is not declared as one would be shown everywhere."""
    named = {
        row.key
        for row, _ in ROWS
        if row.key.endswith(("password", "secret", "secret.key", "config"))
    }
    assert named <= OF_TABLES.keys()
    assert OF_TABLES.keys() - named == {"ssl.keystore.key"}


@pytest.mark.parametrize("key", sorted(OF_TABLES))
def test_s_55_a_printed_table_of_settings_hides_it(key: str) -> None:
    table = OF_TABLES[key]
    given = {"bootstrap.servers": "b:1", **REQUIRED, **OF_WORKERS}
    if key == "ssl.keystore.key":
        given["ssl.keystore.certificate.chain"] = "c"
    assert SECRET not in repr(from_mapping(table, {**given, key: SECRET}))


def test_s_55_the_settings_of_a_daemon_are_printed_without_any() -> None:
    """All are planted at once, but for a key that is not in a file."""
    of_brokers = {row.key for table in TABLES_OF_BROKERS for row in settings_of(table)}
    given = REQUIRED | {key: SECRET for key in KEYS if key in of_brokers - {"ssl.keystore.key"}}
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    given |= OUTSIDE | {
        JAAS: f'{module} required username="a" password="{SECRET}" user_a="{SECRET}";'
    }
    settings = read_settings(given)
    assert SECRET in settings.properties[JAAS]
    assert SECRET not in repr(settings)
    assert SECRET not in repr(settings.control)
    of_controller = {key: SECRET for key in KEYS if key in CONTROLLERS}
    config, warnings = read_config({"node.id": "9", **of_controller})
    assert SECRET not in repr((config, warnings))


@pytest.mark.parametrize("key", KEYS)
def test_s_55_an_error_about_it_or_its_misspelt_key_hides_it(key: str) -> None:
    error = ConfigError(key, SECRET, "is wrong")
    assert SECRET not in f"{error} {error!r} {error.value}"
    said: list[str] = []
    for wrong in (f"{key}s", key.replace("s", "", 1)):
        given = {**REQUIRED, wrong: SECRET}
        for read in (
            read_settings,
            read_config,
            partial(configured, AdminConfig, ["b:1"]),
            partial(configured, ProducerConfig, ["b:1"]),
        ):
            try:
                read(given)
            except ConfigError as error:
                said.append(str(error))
    assert len(said) >= 4
    assert not [each for each in said if SECRET in each]


@pytest.mark.parametrize("key", KEYS)
async def test_s_55_no_answer_and_no_log_of_a_broker_has_it(
    make_broker: MakeBroker, caplog: pytest.LogCaptureFixture, key: str
) -> None:
    caplog.set_level(logging.DEBUG)
    broker = make_broker(**{key: SECRET})
    for dynamic in (False, True):
        if dynamic:
            broker.image.apply(ConfigRecord(BROKER, "1", key, SECRET), 70)
        asked = DescribeConfigsRequest(
            resources=[DescribeConfigsResource(resource_type=BROKER, resource_name="1")],
            include_synonyms=True,
            include_documentation=True,
        )
        assert SECRET not in repr(broker.connect().ask(asked, 4))
    refused = await ask(broker, altering((BROKER, "1", [change(key, SECRET)])), 1)
    (told,) = refused.values()
    assert told.error_code
    assert SECRET not in (told.error_message or "")
    assert SECRET not in caplog.text


@pytest.mark.parametrize("key", KEYS)
def test_s_55_no_answer_of_a_controller_has_it(key: str) -> None:
    machine = Machine(brokers_up=1)
    machine.create(TOPIC)
    asked = altering((TOPIC_KIND, TOPIC, [change(key, SECRET)]))
    (told,) = incremental_alter(machine.cluster, asked).answer.responses
    assert told.error_code
    assert SECRET not in (told.error_message or "")


@pytest.mark.parametrize("key", KEYS)
def test_s_55_a_dump_of_the_metadata_hides_it(key: str) -> None:
    shown = decode_metadata(encode_record(ConfigRecord(BROKER, "1", key, SECRET)))
    assert key in shown
    assert SECRET not in shown


def test_s_55_keys_of_sessions_and_forwarded_bodies_are_not_printed() -> None:
    secret = SECRET.encode()
    forwarded = ForwardedRequest(51, 0, secret, "User:alice", 1000)
    for message in (HelloAnswer(0, datagram_key=secret), forwarded):
        assert SECRET not in repr(message)
