"""The settings of the proxy, and how one mapping is divided among it and its clients."""

import logging
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from ...client.config import AdminConfig, ConsumerConfig, ProducerConfig, configured
from ...runtime.config import check_keys, config_table, from_mapping, setting, settings_of
from ...runtime.errors import ConfigError
from ...runtime.kafka_keys import KNOWN_UNUSED
from ...security.listener import SecurityProtocol
from ...security.sasl.oauthbearer import OAUTHBEARER

log = logging.getLogger(__name__)

NONE, SASL = "none", "sasl"
AUTHENTICATION: Final = "minikafka.rest.authentication"
MIB: Final = 1024 * 1024


@config_table
class RestConfig:
    """The settings of the proxy itself; where Confluent's proxy has the key, it is the same."""

    instance_timeout_ms: int = setting(
        "consumer.instance.timeout.ms",
        300_000,
        at_least=1,
        doc="A v2 consumer that nobody has used for this time is closed.",
    )
    request_timeout_ms: int = setting(
        "consumer.request.timeout.ms",
        1_000,
        at_least=1,
        at_most=60_000,
        doc="How long a v2 read waits for records, if its request does not say.",
    )
    request_max_bytes: int = setting(
        "consumer.request.max.bytes",
        8 * MIB,
        at_least=1,
        doc="The most bytes of keys and values of one v2 read; one record is returned whatever "
        "its size.",
    )
    allow_origin: tuple[str, ...] = setting(
        "access.control.allow.origin",
        (),
        doc="The origins whose pages may read answers in a browser (CORS), or * for all.",
    )
    authentication: str = setting(
        AUTHENTICATION,
        NONE,
        choices=(NONE, SASL),
        doc="With sasl each request has a login, Basic or Bearer, and brokers are asked as that "
        "user: Basic by sasl.mechanism (PLAIN or SCRAM), Bearer by OAUTHBEARER. With none "
        "everybody acts as the proxy.",
    )
    max_body_bytes: int = setting(
        "minikafka.rest.max.request.bytes",
        4 * MIB,
        at_least=1024,
        doc="The largest body of a request, and the longest record of a stream.",
    )
    max_instances: int = setting(
        "minikafka.rest.max.instances",
        1_000,
        at_least=1,
        doc="The most v2 consumers of this proxy.",
    )
    max_principals: int = setting(
        "minikafka.rest.max.principals",
        64,
        at_least=1,
        doc="The most users for whom the proxy has clients at a time.",
    )
    max_streams: int = setting(
        "minikafka.rest.max.streams",
        64,
        at_least=1,
        doc="The most streams of records, in or out, at a time.",
    )
    client_idle_ms: int = setting(
        "minikafka.rest.client.idle.ms",
        300_000,
        at_least=1,
        doc="The clients of a user who has asked nothing for this time are closed.",
    )
    produce_rate: int = setting(
        "minikafka.rest.produce.rate",
        0,
        at_least=0,
        doc="The most records that a user may write in a second, beyond which the answer is 429; "
        "0: without a bound.",
    )


class Usual(NamedTuple):
    """The defaults of the proxy for one kind of client."""

    table: type
    prefix: str
    settings: Mapping[str, str]


_COMMON: Final = {"bootstrap.timeout.ms": "5000", "request.timeout.ms": "10000"}
_ADMIN: Final = Usual(
    AdminConfig, "admin.", {**_COMMON, "default.api.timeout.ms": "15000", "client.id": "rest-admin"}
)
_PRODUCER: Final = Usual(
    ProducerConfig,
    "producer.",
    {
        **_COMMON,
        "client.id": "rest-producer",
        "linger.ms": "0",
        "max.block.ms": "10000",
        "delivery.timeout.ms": "30000",
        "buffer.memory": str(16 * MIB),
    },
)
_CONSUMER: Final = Usual(
    ConsumerConfig,
    "consumer.",
    {
        **_COMMON,
        "client.id": "rest-consumer",
        "default.api.timeout.ms": "15000",
        "fetch.max.bytes": str(MIB),
        "max.partition.fetch.bytes": str(MIB),
    },
)


class Settings(NamedTuple):
    """The settings of the proxy and of each kind of client, by Kafka's names."""

    rest: RestConfig
    admin: dict[str, str]
    producer: dict[str, str]
    consumer: dict[str, str]


def divided(given: Mapping[str, str]) -> Settings:
    """Divide settings: the proxy's, `producer.` `consumer.` `admin.`, the rest is of all clients.

    Raise ConfigError if a key is unknown or a value wrong.
    """
    own = {row.key for row in settings_of(RestConfig)}
    rest = from_mapping(RestConfig, given)
    prefixes = tuple(one.prefix for one in (_ADMIN, _PRODUCER, _CONSUMER))
    common = {k: v for k, v in given.items() if k not in own and not k.startswith(prefixes)}
    if rest.authentication == SASL:
        _check_login(common, [key for key in given if key not in own], prefixes)
    tables = [one.table for one in (_ADMIN, _PRODUCER, _CONSUMER)]
    for warning in check_keys(common, RestConfig, *tables, known_unused=KNOWN_UNUSED):
        log.warning("%s", warning)
    return Settings(
        rest, *(_of(one, given, common, rest) for one in (_ADMIN, _PRODUCER, _CONSUMER))
    )


def _of(
    usual: Usual, given: Mapping[str, str], common: Mapping[str, str], rest: RestConfig
) -> dict[str, str]:
    known = {row.key for row in settings_of(usual.table)}
    own = {k.removeprefix(usual.prefix): v for k, v in given.items() if k.startswith(usual.prefix)}
    found = {**usual.settings, **{k: v for k, v in common.items() if k in known}, **own}
    sample: dict[str, Any] = dict(found)
    if rest.authentication == SASL:
        # The users' own logins come later; the other settings are checked now.
        found.setdefault("sasl.mechanism", "PLAIN")
        sample = {**found, "sasl.username": "-", "sasl.password": "-"}
    configured(usual.table, None, sample)
    return found


def _check_login(common: Mapping[str, str], given: Iterable[str], prefixes: Iterable[str]) -> None:
    protocol = common.get("security.protocol", "PLAINTEXT")
    if protocol not in SecurityProtocol.__members__ or not SecurityProtocol(protocol).has_sasl:
        why = "needs security.protocol=SASL_SSL or SASL_PLAINTEXT, for the logins at the brokers"
        raise ConfigError(AUTHENTICATION, SASL, why)
    if common.get("sasl.mechanism") == OAUTHBEARER:
        why = f"is that of Basic with {AUTHENTICATION}={SASL}: PLAIN or SCRAM; Bearer needs none"
        raise ConfigError("sasl.mechanism", OAUTHBEARER, why)
    for key in given:
        own = next((key.removeprefix(one) for one in prefixes if key.startswith(one)), key)
        if own.startswith("sasl.") and own != "sasl.mechanism":
            raise ConfigError(key, None, f"cannot be given with {AUTHENTICATION}={SASL}")
