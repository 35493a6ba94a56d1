"""Generates docs/config.md from the configuration tables.

python -m minikafka.deploy.config_docs > docs/config.md
"""

from collections.abc import Iterator
from typing import Final

from ..broker.admission.limits import ConnectionLimits
from ..broker.config import BrokerConfig
from ..broker.control.metadata_position import MetadataConfig
from ..broker.coordinator.group.config import GroupConfig
from ..broker.coordinator.transaction.config import TransactionConfig
from ..broker.replica.rate_config import RateConfig
from ..broker.replica.selector import ReplicaSelectorConfig
from ..broker.telemetry.config import TelemetryConfig
from ..broker.tracing.config import TraceConfig
from ..broker.upkeep.compaction import CompactionConfig
from ..client.config import AdminConfig, ConsumerConfig, ProducerConfig
from ..connect.worker_config import WorkerConfig
from ..controller.config import ControllerConfig
from ..protocol.client_metrics import ClientMetricsConfig
from ..runtime.config import PLUGIN_PREFIXES, Setting, settings_of
from ..runtime.kafka_keys import KNOWN_UNUSED
from ..security.audit_config import AuditConfig
from ..security.authorizer_config import AuthorizerConfig
from ..security.sasl.oauth_settings import OAuthBearerConfig
from ..security.sasl.settings import SaslConfig
from ..security.tls_config import ListenerTlsConfig
from ..storage.topic_config import TopicConfig
from ..web.rest.settings import RestConfig

INTRODUCTION: Final = """\
# Configuration

Kafka's names and meanings. A daemon takes `KEY=VALUE` lines from its properties file and
`--override KEY=VALUE` on top; a client takes the same keys as keyword arguments with underscores
(`acks="all"`, `linger_ms=5`). A value out of bounds or an unknown key ends a daemon with exit code
2 and one line that names key, value and reason, before anything is opened. A key that Kafka knows
and that means nothing here is worth one warning; they stand at the end.

This page is made from the tables in the code: `python -m minikafka.deploy.config_docs`.
"""
TABLES: Final = {
    "Brokers: minikafka-broker": BrokerConfig,
    "Brokers: connections": ConnectionLimits,
    "Brokers: logins by SASL": SaslConfig,
    "Brokers: logins by OAUTHBEARER, also per listener": OAuthBearerConfig,
    "Brokers: TLS, also per listener as listener.name.NAME.KEY": ListenerTlsConfig,
    "Brokers: compaction": CompactionConfig,
    "Brokers: rates": RateConfig,
    "Brokers: reading from followers": ReplicaSelectorConfig,
    "Brokers: transactions": TransactionConfig,
    "Brokers: groups and offsets": GroupConfig,
    "Brokers: lost metadata": MetadataConfig,
    "Brokers: metrics of clients": TelemetryConfig,
    "Brokers: the audit": AuditConfig,
    "Brokers: trace points": TraceConfig,
    "Brokers: authorization": AuthorizerConfig,
    "Controllers: minikafka-controller": ControllerConfig,
    "Topics": TopicConfig,
    "Subscriptions to the metrics of clients": ClientMetricsConfig,
    "Producer": ProducerConfig,
    "Consumer": ConsumerConfig,
    "Admin": AdminConfig,
    "Connect: workers": WorkerConfig,
    "REST proxy: minikafka rest": RestConfig,
}


def page() -> str:
    """Return the whole page as text."""
    lines = [INTRODUCTION]
    for title, table in TABLES.items():
        lines += [f"## {title}", "", "| key | default | allowed | what it brings about |"]
        lines += ["|---|---|---|---|", *map(_row, settings_of(table)), ""]
    lines += ["## Known to Kafka, without meaning here", "", *_unused(), ""]
    prefixes = ", ".join(f"`{prefix}*`" for prefix in PLUGIN_PREFIXES)
    lines.append(f"Keys of plugins pass without a word: {prefixes}.")
    return "\n".join(lines) + "\n"


def _row(setting: Setting) -> str:
    if setting.required:
        default = "required"
    else:
        default = f"`{setting.format(setting.default)}`" if setting.default is not None else ""
        default = default.replace("``", "empty")
    doc = setting.doc + (" Changes while running." if setting.dynamic else "")
    return f"| `{setting.key}` | {default} | {_allowed(setting)} | {doc} |"


def _allowed(setting: Setting) -> str:
    if setting.choices:
        return ", ".join(f"`{choice}`" for choice in setting.choices)
    bounds = []
    if setting.at_least is not None:
        bounds.append(f"at least {setting.at_least}")
    if setting.at_most is not None and setting.at_most < 2**31 - 1:
        bounds.append(f"at most {setting.at_most}")
    return ", ".join([setting.kafka_type.lower(), *bounds])


def _unused() -> Iterator[str]:
    by_reason: dict[str, list[str]] = {}
    for key, reason in KNOWN_UNUSED.items():
        by_reason.setdefault(reason, []).append(key)
    for reason, keys in by_reason.items():
        yield f"- {reason}: {', '.join(f'`{key}`' for key in sorted(keys))}"


if __name__ == "__main__":
    print(page(), end="")
