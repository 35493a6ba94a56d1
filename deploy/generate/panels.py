"""The panels of the dashboard: the query of each, and the unit and colours of its values.

Pure. `$job`, `$instance`, `$topic` and `$consumer_group` are the dashboard's variables; the two
that begin with `$__` are Grafana's.
"""

from typing import Final, NamedTuple

_CLUSTER: Final = '{job="$job"}'
_DAEMON: Final = '{job="$job",instance=~"$instance"}'
_QUANTILE: Final = '{{job="$job",instance=~"$instance",quantile="{}"}}'
_TOPIC: Final = '{job="$job",instance=~"$instance",topic=~"$topic"}'
_GROUP: Final = '{job="$job",consumergroup=~"$consumer_group",topic=~"$topic"}'
_CONTROLLER: Final = "kafka_controller_kafkacontroller_"
_REPLICAS: Final = "kafka_server_replicamanager_"
_TRAFFIC: Final = "kafka_server_brokertopicmetrics_"
_REQUESTS: Final = "kafka_network_requestmetrics_"
_RAFT: Final = "kafka_server_raft_metrics_"

Query = tuple[str, str]
"""A PromQL expression, and the legend of its series."""
Colors = tuple[tuple[int | None, str], ...]
"""The colours, each with the value from which it applies; None stands for no lower bound."""

_PLAIN: Final[Colors] = ((None, "blue"),)
_BAD_FROM_ONE: Final[Colors] = ((None, "green"), (1, "red"))
_ONLY_ONE: Final[Colors] = ((None, "red"), (1, "green"), (2, "red"))


class Panel(NamedTuple):
    """A panel: a graph, or a single number if it has colours."""

    title: str
    unit: str
    """Grafana's id for the unit of the values."""
    queries: tuple[Query, ...]
    colors: Colors = ()

    @property
    def is_stat(self) -> bool:
        """True if the panel shows the present value as a number, not a graph."""
        return bool(self.colors)


def _stat(title: str, expr: str, colors: Colors) -> Panel:
    return Panel(title, "none", ((expr, ""),), colors)


def _rate(name: str, selected: str, by: str) -> str:
    return f"sum by ({by}) (rate({name}_total{selected}[$__rate_interval]))"


def _traffic(title: str, unit: str, name: str) -> Panel:
    return Panel(title, unit, ((_rate(_TRAFFIC + name, _TOPIC, "topic"), "{{topic}}"),))


def _quantiles(title: str, name: str, by: str) -> Panel:
    """Make a panel of a summary's quantiles, each the slowest of the series that share `by`."""
    legend = " ".join(f"{{{{{label.strip()}}}}}" for label in by.split(","))
    return Panel(
        title,
        "ms",
        tuple(
            (
                f"max by ({by}) ({name}{_QUANTILE.format(quantile)})",
                f"p{percent} {legend}",
            )
            for quantile, percent in (("0.5", 50), ("0.95", 95), ("0.99", 99))
        ),
    )


def _times(title: str, request: str) -> Panel:
    """Make a panel of how long requests of one kind take, and how long they wait in the broker."""
    return Panel(
        title,
        "ms",
        tuple(
            (
                f"max by (request) ({_REQUESTS}{phase}timems"
                f'{{job="$job",instance=~"$instance",request="{request}",quantile="{quantile}"}})',
                f"p{percent}{said}",
            )
            for phase, said in (("total", ""), ("remote", " waiting"))
            for quantile, percent in (("0.5", 50), ("0.95", 95), ("0.99", 99))
        ),
    )


_HEALTH: Final = (
    _stat("Brokers up", f"max({_CONTROLLER}activebrokercount{_CLUSTER})", _PLAIN),
    _stat("Active controllers", f"sum({_CONTROLLER}activecontrollercount{_CLUSTER})", _ONLY_ONE),
    _stat(
        "Under-replicated partitions",
        f"sum({_REPLICAS}underreplicatedpartitions{_CLUSTER})",
        _BAD_FROM_ONE,
    ),
    _stat(
        "Offline partitions", f"max({_CONTROLLER}offlinepartitionscount{_CLUSTER})", _BAD_FROM_ONE
    ),
    _stat(
        "Partitions under min ISR",
        f"sum({_REPLICAS}underminisrpartitioncount{_CLUSTER})",
        _BAD_FROM_ONE,
    ),
    _stat(
        "Unclean elections",
        "ceil(sum(increase("
        f"kafka_controller_controllerstats_uncleanleaderelections_total{_CLUSTER}[$__range])))",
        _BAD_FROM_ONE,
    ),
)

_THROUGHPUT: Final = (
    _traffic("Records in", "cps", "messagesin"),
    _traffic("Bytes in", "Bps", "bytesin"),
    _traffic("Bytes out to consumers", "Bps", "bytesout"),
    Panel(
        "Bytes between replicas",
        "Bps",
        (
            (_rate(f"{_TRAFFIC}replicationbytesin", _TOPIC, "instance"), "in {{instance}}"),
            (_rate(f"{_TRAFFIC}replicationbytesout", _TOPIC, "instance"), "out {{instance}}"),
        ),
    ),
    Panel(
        "Refused requests",
        "cps",
        (
            (_rate(f"{_TRAFFIC}failedproducerequests", _TOPIC, "topic"), "produce {{topic}}"),
            (_rate(f"{_TRAFFIC}failedfetchrequests", _TOPIC, "topic"), "fetch {{topic}}"),
        ),
    ),
    Panel(
        "Connections",
        "short",
        (
            (
                f"sum by (instance) (kafka_server_socket_server_metrics_connection_count{_DAEMON})",
                "{{instance}}",
            ),
        ),
    ),
)

_LATENCY: Final = (
    _times("Produce", "Produce"),
    _times("Fetches of consumers", "FetchConsumer"),
    _times("Fetches of followers", "FetchFollower"),
    Panel(
        "All requests, 99th percentile",
        "ms",
        (
            (
                f"max by (request) ({_REQUESTS}totaltimems{_QUANTILE.format('0.99')})",
                "{{request}}",
            ),
        ),
    ),
    Panel(
        "Requests",
        "reqps",
        ((_rate(f"{_REQUESTS}requests", _DAEMON, "request"), "{{request}}"),),
    ),
    Panel(
        "Errors in answers",
        "cps",
        ((_rate(f"{_REQUESTS}errors", _DAEMON, "request, error"), "{{request}} {{error}}"),),
    ),
    Panel(
        "Requests that wait",
        "short",
        (
            (
                "sum by (delayedOperation)"
                f" (kafka_server_delayedoperationpurgatory_purgatorysize{_DAEMON})",
                "{{delayedOperation}}",
            ),
        ),
    ),
    _quantiles("Delay of event loops", "minikafka_event_loop_delay_ms", "instance"),
    _quantiles("Flushes", "kafka_log_logflushstats_logflushrateandtimems", "instance"),
)

_REPLICATION: Final = (
    Panel(
        "Leaders and replicas",
        "short",
        (
            (f"{_REPLICAS}leadercount{_DAEMON}", "leaders {{instance}}"),
            (f"{_REPLICAS}partitioncount{_DAEMON}", "replicas {{instance}}"),
        ),
    ),
    Panel(
        "Followers behind, time",
        "ms",
        ((f"max by (follower) (minikafka_follower_lag_milliseconds{_DAEMON})", "{{follower}}"),),
    ),
    Panel(
        "Followers behind, records",
        "short",
        ((f"max by (follower) (minikafka_follower_lag_records{_DAEMON})", "{{follower}}"),),
    ),
    Panel(
        "Changes of ISRs",
        "cps",
        (
            (_rate(f"{_REPLICAS}isrshrinks", _DAEMON, "instance"), "smaller {{instance}}"),
            (_rate(f"{_REPLICAS}isrexpands", _DAEMON, "instance"), "larger {{instance}}"),
        ),
    ),
)

_RESOURCES: Final = (
    Panel(
        "Logs by topic, all replicas",
        "bytes",
        ((f"sum by (topic) (kafka_log_log_size{_TOPIC})", "{{topic}}"),),
    ),
    Panel(
        "Logs by broker",
        "bytes",
        ((f"sum by (instance) (kafka_log_log_size{_TOPIC})", "{{instance}}"),),
    ),
    Panel(
        "Disk in use",
        "percentunit",
        (
            (
                f"1 - minikafka_disk_usable_bytes{_DAEMON} / minikafka_disk_bytes{_DAEMON}",
                "{{instance}} {{logDirectory}}",
            ),
        ),
    ),
    Panel(
        "CPU",
        "percentunit",
        ((_rate("process_cpu_seconds", _DAEMON, "instance"), "{{instance}}"),),
    ),
    Panel(
        "Memory of processes",
        "bytes",
        ((f"process_resident_memory_bytes{_DAEMON}", "{{instance}}"),),
    ),
    Panel(
        "Memory held by connections",
        "percentunit",
        (
            (
                f"minikafka_memory_bytes{_DAEMON} / minikafka_memory_limit_bytes{_DAEMON}",
                "{{holds}} {{instance}}",
            ),
        ),
    ),
)

_OF_GROUP: Final = "{{consumergroup}} {{topic}}"
_GROUPS: Final = (
    Panel(
        "Lag, time",
        "s",
        (
            (
                f"max by (consumergroup, topic) (minikafka_consumergroup_lag_seconds{_GROUP})",
                _OF_GROUP,
            ),
        ),
    ),
    Panel(
        "Lag, records",
        "short",
        (
            (
                f"sum by (consumergroup, topic) (minikafka_consumergroup_lag_records{_GROUP})",
                _OF_GROUP,
            ),
        ),
    ),
    Panel(
        "Lag, bytes",
        "bytes",
        (
            (
                f"sum by (consumergroup, topic) (minikafka_consumergroup_lag_bytes{_GROUP})",
                _OF_GROUP,
            ),
        ),
    ),
    Panel(
        "Offsets committed",
        "cps",
        (
            (
                "sum by (consumergroup, topic)"
                f" (rate(kafka_consumergroup_current_offset{_GROUP}[$__rate_interval]))",
                _OF_GROUP,
            ),
        ),
    ),
    Panel(
        "Members",
        "short",
        (
            (
                "max by (consumergroup) (kafka_consumergroup_members"
                '{job="$job",consumergroup=~"$consumer_group"})',
                "{{consumergroup}}",
            ),
        ),
    ),
    Panel(
        "Oldest open transaction",
        "s",
        ((f"minikafka_oldest_open_transaction_seconds{_DAEMON}", "{{instance}}"),),
    ),
)

_CONTROLLERS: Final = (
    Panel(
        "States",
        "short",
        ((f"sum by (state) ({_RAFT}current_state_info{_CLUSTER})", "{{state}}"),),
    ),
    Panel("Epoch", "none", ((f"{_RAFT}current_epoch{_DAEMON}", "{{instance}}"),)),
    _quantiles("Commits of decisions", "minikafka_controller_commit_latency_ms", "job"),
    Panel(
        "Elections",
        "cps",
        (
            (_rate("minikafka_controller_leaders_elected", _CLUSTER, "job"), "leaders elected"),
            (_rate("minikafka_controller_leaders_lost", _CLUSTER, "job"), "leaders lost"),
        ),
    ),
    Panel(
        "Behind the metadata",
        "short",
        (
            (
                f"max by (broker) (minikafka_controller_broker_metadata_lag{_CLUSTER})",
                "broker {{broker}}",
            ),
            (f"max by (voter) (minikafka_controller_voter_lag{_CLUSTER})", "controller {{voter}}"),
        ),
    ),
    Panel(
        "Silence of brokers",
        "ms",
        (
            (
                f"max by (broker) (minikafka_controller_heartbeat_age_ms{_CLUSTER})",
                "broker {{broker}}",
            ),
        ),
    ),
)

ROWS: Final = (
    ("Health", _HEALTH),
    ("Throughput", _THROUGHPUT),
    ("Requests and latency", _LATENCY),
    ("Replication", _REPLICATION),
    ("Storage, CPU and memory", _RESOURCES),
    ("Groups and transactions", _GROUPS),
    ("Controllers", _CONTROLLERS),
)
"""Title and panels of each row, from top to bottom."""
