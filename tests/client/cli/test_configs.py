"""`configs`: whose settings it asks for, what it changes, what it prints."""

from pathlib import Path

import pytest

from minikafka.client.admin.config_types import ConfigResource
from minikafka.client.admin.quota_types import QuotaEntity
from minikafka.client.cli.configs import split_settings
from minikafka.client.cli.quota_configs import as_double
from minikafka.protocol.types import TopicPartition
from minikafka.runtime.errors import ConfigError

from .conftest import Run
from .fake_admin import FakeAdmin

AT = ("configs", "--bootstrap-server", "localhost:9092")
LOGGER = ConfigResource.broker_logger(1)
TOPIC, BROKER, DEFAULTS = (
    ConfigResource.topic("t"),
    ConfigResource.broker(1),
    ConfigResource.broker(None),
)


USERS = ("--entity-type", "users")
OF_ALICE = ("--alter", *USERS, "--entity-name", "alice")


@pytest.fixture
def cluster(admin: FakeAdmin) -> FakeAdmin:
    admin.placement = {TopicPartition("t", 0): (1,), TopicPartition("u", 0): (1,)}
    admin.configs = {TOPIC: {"retention.ms": "5"}, DEFAULTS: {"min.insync.replicas": "2"}}
    admin.configs[ConfigResource.client_metrics("app")] = {"interval.ms": "100"}
    admin.configs[LOGGER] = {"root": "INFO", "a.b": "DEBUG"}
    return admin


RETENTION = (
    "  retention.ms=5 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=5, "
    "DEFAULT_CONFIG:log.retention.ms=9}\n"
)
ISR = (
    "  min.insync.replicas=2 sensitive=false synonyms={DYNAMIC_DEFAULT_BROKER_CONFIG:"
    "min.insync.replicas=2, DEFAULT_CONFIG:log.min.insync.replicas=9}\n"
)

LEVELS = (
    "Dynamic configs for broker-logger 1 are:\n"
    "  a.b=DEBUG sensitive=false synonyms={}\n"
    "  root=INFO sensitive=false synonyms={}\n"
)


@pytest.mark.parametrize(
    ("flags", "out"),
    [
        (("--topic", "t"), "Dynamic configs for topic t are:\n" + RETENTION),
        (
            ("--entity-type", "topics", "--entity-name", "t", "--all"),
            "All configs for topic t are:\n"
            "  min.insync.replicas=1 sensitive=false synonyms={}\n" + RETENTION,
        ),
        (
            ("--entity-type", "topics"),
            "Dynamic configs for topic t are:\n" + RETENTION + "Dynamic configs for topic u are:\n",
        ),
        (("--broker", "1"), "Dynamic configs for broker 1 are:\n"),
        (("--broker-logger", "1"), LEVELS),
        (("--entity-type", "broker-loggers", "--entity-name", "1"), LEVELS),
        (
            ("--entity-type", "broker-loggers"),
            LEVELS + "".join(f"Dynamic configs for broker-logger {n} are:\n" for n in (2, 3, 4)),
        ),
        (
            ("--entity-type", "client-metrics"),
            "Dynamic configs for client-metric app are:\n"
            "  interval.ms=100 sensitive=false synonyms={}\n",
        ),
        (
            ("--client-metrics", "app"),
            "Dynamic configs for client-metric app are:\n"
            "  interval.ms=100 sensitive=false synonyms={}\n",
        ),
        (("--broker-defaults",), "Default configs for brokers in the cluster are:\n" + ISR),
        (
            ("--entity-type", "brokers"),
            "".join(f"Dynamic configs for broker {n} are:\n" for n in (1, 2, 3, 4))
            + "Default configs for brokers in the cluster are:\n"
            + ISR,
        ),
        (
            ("--entity-type", "brokers", "--entity-default"),
            "Default configs for brokers in the cluster are:\n" + ISR,
        ),
    ],
)
def test_describe(run: Run, cluster: FakeAdmin, flags: tuple[str, ...], out: str) -> None:
    assert run(*AT, "--describe", *flags) == (0, out, "")


@pytest.mark.parametrize(
    ("flags", "resource", "after", "whose"),
    [
        (
            ("--topic", "t", "--add-config", "a=1,cleanup.policy=[compact,delete]"),
            TOPIC,
            {"retention.ms": "5", "a": "1", "cleanup.policy": "compact,delete"},
            "config for topic t",
        ),
        (("--topic", "t", "--delete-config", "retention.ms"), TOPIC, {}, "config for topic t"),
        (("--broker", "1", "--add-config", "x=2"), BROKER, {"x": "2"}, "config for broker 1"),
        (
            ("--broker-defaults", "--add-config", "x=2", "--delete-config", "min.insync.replicas"),
            DEFAULTS,
            {"x": "2"},
            "default config for brokers in the cluster",
        ),
        (
            ("--broker-logger", "1", "--add-config", "root=WARN", "--delete-config", "a.b"),
            LOGGER,
            {"root": "WARN"},
            "config for broker-logger 1",
        ),
    ],
)
def test_alter(
    run: Run,
    cluster: FakeAdmin,
    flags: tuple[str, ...],
    resource: ConfigResource,
    after: dict[str, str],
    whose: str,
) -> None:
    assert run(*AT, "--alter", *flags) == (0, f"Completed updating {whose}.\n", "")
    assert cluster.configs[resource] == after


def test_settings_may_come_from_a_file(run: Run, cluster: FakeAdmin, tmp_path: Path) -> None:
    file = tmp_path / "topic.properties"
    file.write_text("a=1\nb=2,3\n")
    assert run(*AT, "--alter", "--topic", "u", "--add-config-file", file).code == 0
    assert cluster.configs[ConfigResource.topic("u")] == {"a": "1", "b": "2,3"}


def test_what_was_never_set_cannot_be_deleted(run: Run, cluster: FakeAdmin) -> None:
    code, out, err = run(*AT, "--alter", "--topic", "t", "--delete-config", "a,retention.ms,b")
    assert (code, out) == (1, "")
    assert err == "Error while executing config command: Invalid config(s): a,b\n"
    assert cluster.asked == []


def test_a_logger_that_is_not_there_is_neither_set_nor_deleted(
    run: Run, cluster: FakeAdmin
) -> None:
    flags = ("--add-config", "a.c=INFO,root=WARN", "--delete-config", "a.d")
    code, out, err = run(*AT, "--alter", "--broker-logger", "1", *flags)
    assert (code, out) == (1, "")
    assert err == "Error while executing config command: Invalid broker logger(s): a.d,a.c\n"
    assert cluster.asked == []


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--topic", "t"), "exactly one action: --describe, --alter"),
        (("--describe", "--alter", "--topic", "t"), "exactly one action"),
        (("--describe",), "needs exactly one of --entity-type, --topic"),
        (("--describe", "--topic", "t", "--broker", "1"), "needs exactly one of --entity-type"),
        (
            ("--describe", "--entity-type", "groups"),
            "only topics, brokers, broker-loggers, client-metrics, users, clients, ips",
        ),
        (("--alter", *USERS, "--add-config", "SCRAM-SHA-256=[password=p]"), "needs --entity-name"),
        (("--alter", *USERS, "--entity-name", "a"), "--alter needs --add-config"),
        (("--alter", "--describe", *USERS), "exactly one action"),
        (
            ("--alter", "--user-defaults", "--add-config", "SCRAM-SHA-256=[password=p]"),
            "no default credentials",
        ),
        (
            (*OF_ALICE, "--add-config", "SCRAM-SHA-1=[password=p]"),
            "Only quota and SCRAM credential configs can be altered for 'users'."
            " Unexpected config names: SCRAM-SHA-1",
        ),
        (
            (*OF_ALICE, "--add-config", "request_percentage=1,SCRAM-SHA-256=[password=p]"),
            "Cannot alter both",
        ),
        (
            ("--alter", "--client", "c", "--add-config", "SCRAM-SHA-256=[password=p]"),
            "Only quota configs can be altered for 'clients'",
        ),
        (
            ("--alter", "--ip", "::1", "--add-config", "producer_byte_rate=1"),
            "Only quota configs can be altered for 'ips'. Unexpected config names: producer_byte",
        ),
        (
            ("--alter", "--client", "c", "--add-config", "connection_creation_rate=1"),
            "Unexpected config names: connection_creation_rate",
        ),
        ((*OF_ALICE, "--add-config", "producer_byte_rate=many"), "many: must be a number"),
        (
            ("--alter", *USERS, "--client", "c", "--add-config", "a=1"),
            "--alter needs --entity-name",
        ),
        (("--describe", *USERS, "--user", "a"), "Duplicate entity type(s) specified: users"),
        (("--describe", *USERS, "--ip", "::1"), "Only users and clients can be named together"),
        (("--describe", "--topic", "t", "--user", "a"), "Only users and clients can be named"),
        ((*OF_ALICE, "--add-config", "SCRAM-SHA-256=[iterations=8192]"), "needs a password"),
        ((*OF_ALICE, "--add-config", "SCRAM-SHA-256=[pw=hunter2]"), "must look like [iterations"),
        (
            (*OF_ALICE, "--add-config", "SCRAM-SHA-256=[iterations=many,password=p]"),
            "iterations=many: must be a number",
        ),
        (
            (*OF_ALICE, "--add-config", "SCRAM-SHA-256=[iterations=100,password=p]"),
            "Iterations 100 is less than the minimum 4096 required for SCRAM-SHA-256",
        ),
        (
            (*OF_ALICE, "--add-config", "SCRAM-SHA-256=[iterations=99999,password=p]"),
            "is greater than the maximum 16384",
        ),
        (
            ("--describe", "--entity-type", "broker-loggers", "--entity-default"),
            "no defaults of all brokers",
        ),
        (("--describe", "--entity-type", "topics", "--entity-default"), "defaults from brokers"),
        (
            ("--describe", "--entity-type=brokers", "--entity-default", "--entity-name=1"),
            "exclude each other",
        ),
        (("--alter", "--entity-type", "topics", "--add-config", "a=1"), "--alter needs --entity"),
        (("--alter", "--topic", "t"), "--alter needs --add-config"),
        (("--alter", "--topic", "t", "--add-config", "a=1", "--all"), "--all belongs to"),
        (("--describe", "--topic", "t", "--add-config", "a=1"), "belong to --alter"),
        (
            ("--alter", "--topic", "t", "--add-config", "a=1", "--delete-config", "a"),
            "a: cannot be added and deleted at once",
        ),
        (("--alter", "--topic", "t", "--add-config", "a"), "must look like k=v"),
    ],
)
def test_flags_that_cannot_be(
    run: Run, cluster: FakeAdmin, flags: tuple[str, ...], words: str
) -> None:
    code, out, err = run(*AT, *flags)
    assert (code, out) == (2, "")
    assert words in err
    assert cluster.asked == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", {}),
        ("a=1", {"a": "1"}),
        (" a = 1 , b=2,", {"a": "1", "b": "2"}),
        ("a=[1,2],b=[]", {"a": "1,2", "b": ""}),
        ("a=b=c", {"a": "b=c"}),
        ("a=", {"a": ""}),
    ],
)
def test_settings_are_split(text: str, found: dict[str, str]) -> None:
    assert split_settings(text) == found


@pytest.mark.parametrize("text", ["a", "=1", "a=[1,2", "a=1,,b"])
def test_settings_that_cannot_be_split(text: str) -> None:
    with pytest.raises(ConfigError, match="must look like"):
        split_settings(text)


def test_passwords_of_users_are_set_deleted_and_described(run: Run, cluster: FakeAdmin) -> None:
    added = "SCRAM-SHA-256=[iterations=8192,password=hunter2,=],SCRAM-SHA-512=[password=a,b]"
    code, out, _ = run(*AT, *OF_ALICE, "--add-config", added)
    assert (code, out) == (0, "Completed updating config for user alice.\n")
    assert cluster.asked == [
        ("scram", "alice", "SCRAM-SHA-256", "hunter2,=", 8192),
        ("scram", "alice", "SCRAM-SHA-512", "a,b", 4096),
    ]
    code, out, _ = run(*AT, "--describe", *USERS)
    told = "SCRAM credential configs for user-principal 'alice' are "
    assert out == told + "SCRAM-SHA-256=iterations=8192, SCRAM-SHA-512=iterations=4096\n"
    assert run(*AT, *OF_ALICE, "--delete-config", "SCRAM-SHA-512")[0] == 0
    _, out, _ = run(*AT, "--describe", *USERS, "--entity-name", "alice")
    assert out == told + "SCRAM-SHA-256=iterations=8192\n"


def test_quotas_are_set_deleted_and_described(run: Run, cluster: FakeAdmin) -> None:
    both = (*USERS, "--entity-name", "erin", "--entity-type", "clients", "--entity-default")
    added = "request_percentage=50,producer_byte_rate=1024"
    code, out, _ = run(*AT, "--alter", *both, "--add-config", added)
    assert (code, out) == (0, "Completed updating config for user erin.\n")
    entity = QuotaEntity(user="erin", client_id="")
    assert cluster.quotas == {entity: {"request_percentage": 50.0, "producer_byte_rate": 1024.0}}
    _, out, _ = run(*AT, "--describe", *USERS, "--entity-type", "clients")
    told = "Quota configs for user-principal 'erin', the default client-id are "
    assert out == told + "request_percentage=50.0, producer_byte_rate=1024.0\n"
    assert run(*AT, "--describe", *USERS)[1] == ""
    assert run(*AT, "--alter", *both, "--delete-config", "request_percentage")[0] == 0
    assert run(*AT, "--describe", *both)[1] == told + "producer_byte_rate=1024.0\n"
    assert cluster.asked[-1] == ("quotas", entity, {"request_percentage": None})
    code, out, err = run(*AT, "--alter", *both, "--delete-config", "request_percentage")
    assert (code, out) == (1, "")
    assert err == "Error while executing config command: Invalid config(s): request_percentage\n"


@pytest.mark.parametrize(
    ("flags", "entity"),
    [
        ((*USERS, "--entity-default", "--entity-type=clients", "--entity-name=c"), ("", "c")),
        ((*USERS, "--entity-name=u", "--entity-type=clients", "--entity-default"), ("u", "")),
        (("--entity-type=clients", "--entity-default", *USERS, "--entity-name=u"), ("u", "")),
        ((*USERS, "--entity-default", "--entity-type=clients", "--entity-default"), ("", "")),
        (("--entity-type=clients", *USERS, "--entity-name=c", "--entity-name=u"), ("u", "c")),
        (("--client", "c", "--user", "u"), ("u", "c")),
        (("--client-defaults", "--user", "u"), ("u", "")),
        ((*USERS, "--entity-default"), ("", None)),
        (("--client", "c"), (None, "c")),
    ],
)
def test_names_belong_to_the_types_in_their_order(
    run: Run, cluster: FakeAdmin, flags: tuple[str, ...], entity: tuple[str | None, str | None]
) -> None:
    code, _, err = run(*AT, "--alter", *flags, "--add-config", "consumer_byte_rate=1e9")
    assert (code, err) == (0, "")
    user, client_id = entity
    whose = QuotaEntity(user=user, client_id=client_id)
    assert cluster.asked == [("quotas", whose, {"consumer_byte_rate": 1e9})]


def test_quotas_of_addresses(run: Run, cluster: FakeAdmin) -> None:
    flags = ("--entity-type", "ips", "--entity-default")
    code, out, _ = run(*AT, "--alter", *flags, "--add-config", "connection_creation_rate=5")
    assert (code, out) == (0, "Completed updating default config for ips in the cluster.\n")
    _, out, _ = run(*AT, "--describe", "--entity-type", "ips")
    assert out == "Quota configs for the default ip are connection_creation_rate=5.0\n"
    code, out, _ = run(*AT, "--alter", "--ip", "::1", "--add-config", "connection_creation_rate=7")
    assert (code, out) == (0, "Completed updating config for ip ::1.\n")
    _, out, _ = run(*AT, "--describe", "--ip", "::1")
    assert out == "Quota configs for ip '::1' are connection_creation_rate=7.0\n"


def test_a_user_shows_quotas_and_credentials(run: Run, cluster: FakeAdmin) -> None:
    cluster.quotas[QuotaEntity(user="alice")] = {"producer_byte_rate": 1048576.0 * 10}
    quota = "Quota configs for user-principal 'alice' are producer_byte_rate=1.048576E7\n"
    assert run(*AT, "--describe", "--user", "alice") == (0, quota, "")
    cluster.credentials["alice"] = {"SCRAM-SHA-256": 4096}
    scram = (
        "SCRAM credential configs for user-principal 'alice' are SCRAM-SHA-256=iterations=4096\n"
    )
    assert run(*AT, "--describe", *USERS)[1] == quota + scram
    assert run(*AT, "--describe", "--user-defaults")[1] == ""


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1024.0, "1024.0"),
        (0.5, "0.5"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (123456789.0, "1.23456789E8"),
        (2.0**62, "4.611686018427388E18"),
        (0.0005, "5.0E-4"),
    ],
)
def test_numbers_look_as_in_java(value: float, text: str) -> None:
    assert as_double(value) == text
