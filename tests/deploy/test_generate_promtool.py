"""Generated files before promtool, Prometheus' own: valid, and each alert fires and clears."""

import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from .test_generate import ALERTS, generate, queries

PROMTOOL = shutil.which("promtool")
pytestmark = pytest.mark.skipif(
    PROMTOOL is None, reason="there is no promtool here (Debian: apt-get install prometheus)"
)
HERE = 'job="minikafka"'
AT = f'{HERE},instance="10.0.0.1:9404"'
CONTROLLER = "kafka_controller_kafkacontroller_"
REPLICAS = "kafka_server_replicamanager_"
MESSAGES = f'kafka_server_brokertopicmetrics_messagesin_total{{{AT},topic="orders"}}'
LAST = 66


def steps(good: int, bad: int) -> str:
    """Values, one a minute: good until 5, bad until 36, good until the end."""
    return f"{good}+0x5 {bad}+0x30 {good}+0x29"


@dataclass(frozen=True)
class Cause:
    """Series that make an alert fire, and when and with which labels it does."""

    alert: str
    series: dict[str, str]
    labels: str = AT
    fires_at: int = 35
    begins_at: int = 6


OF_DELAY = f'{AT},topic="later"'
OF_GROUP = f'{HERE},consumergroup="billing",topic="orders"'
CAUSES = [
    Cause("OfflinePartitions", {f"{CONTROLLER}offlinepartitionscount{{{AT}}}": steps(0, 3)}, HERE),
    Cause(
        "AbnormalControllerState",
        {
            f"{CONTROLLER}activecontrollercount{{{AT}}}": steps(1, 0),
            f'{CONTROLLER}activecontrollercount{{{HERE},instance="b"}}': steps(0, 0),
        },
        HERE,
    ),
    Cause(
        "AbnormalControllerState",
        {
            f"{CONTROLLER}activecontrollercount{{{AT}}}": steps(1, 1),
            f'{CONTROLLER}activecontrollercount{{{HERE},instance="b"}}': steps(0, 1),
        },
        HERE,
    ),
    Cause(
        "AbnormalControllerState",
        {f"{CONTROLLER}activecontrollercount{{{AT}}}": "1+0x5 stale _x30 1+0x28"},
        HERE,
    ),
    Cause(
        "UncleanElection",
        {f"kafka_controller_controllerstats_uncleanleaderelections_total{{{AT}}}": "0+0x5 1+0x60"},
        HERE,
        fires_at=10,
    ),
    Cause("FencedBrokers", {f"{CONTROLLER}fencedbrokercount{{{AT}}}": steps(0, 1)}, HERE),
    Cause(
        "UnderMinIsrPartitionCount", {f"{REPLICAS}underminisrpartitioncount{{{AT}}}": steps(0, 1)}
    ),
    Cause(
        "UnderReplicatedPartitions", {f"{REPLICAS}underreplicatedpartitions{{{AT}}}": steps(0, 1)}
    ),
    Cause(
        "OfflineLogDirectoryCount",
        {f"kafka_log_logmanager_offlinelogdirectorycount{{{AT}}}": steps(0, 1)},
    ),
    Cause(
        "RunningOutOfSpace",
        {
            f'minikafka_disk_usable_bytes{{{AT},logDirectory="/data"}}': steps(15, 14),
            f'minikafka_disk_bytes{{{AT},logDirectory="/data"}}': steps(100, 100),
        },
        f'{AT},logDirectory="/data"',
    ),
    Cause("ScrapeProblem", {f"up{{{AT}}}": steps(1, 0)}),
    Cause(
        "EventLoopDelay",
        {
            f'minikafka_event_loop_delay_ms{{{AT},quantile="0.99"}}': steps(200, 201),
            f'minikafka_event_loop_delay_ms{{{AT},quantile="0.999"}}': steps(900, 900),
        },
        f'{AT},quantile="0.99"',
    ),
    Cause(
        "MemoryNearCap",
        {
            f'minikafka_memory_bytes{{{AT},holds="requests"}}': steps(90, 91),
            f'minikafka_memory_limit_bytes{{{AT},holds="requests"}}': steps(100, 100),
            f'minikafka_memory_bytes{{{AT},holds="responses"}}': steps(91, 91),
            f'minikafka_memory_limit_bytes{{{AT},holds="responses"}}': steps(200, 200),
        },
        f'{AT},holds="requests"',
    ),
    Cause(
        "ConsumerGroupLag",
        {
            f'minikafka_consumergroup_lag_seconds{{{OF_GROUP},partition="0"}}': steps(300, 301),
            f'minikafka_consumergroup_lag_seconds{{{OF_GROUP},partition="1"}}': steps(0, 0),
        },
        OF_GROUP,
    ),
    Cause(
        "RecordsNotForwarded",
        {f'minikafka_forward_overdue_seconds{{{OF_DELAY},partition="0"}}': steps(60, 61)},
        f'{HERE},topic="later"',
    ),
    Cause(
        "RecordsNotForwarded",
        {f'minikafka_forward_held{{{OF_DELAY},partition="0"}}': steps(0, 1)},
        f'{HERE},topic="later"',
    ),
    Cause("AuditNotWritten", {f"minikafka_audit_blocked{{{AT}}}": steps(0, 1)}, HERE),
    Cause("NoMessagesForTooLong", {MESSAGES: "0+10x5 50+0x30 60+10x29"}, f'{HERE},topic="orders"'),
    Cause("NoMessagesForTooLong", {MESSAGES: "_x40 0+10x26"}, f'{HERE},topic="orders"'),
]
"""Each alert at least once; what stays just below a threshold is among the series."""


def promtool(*arguments: str) -> None:
    assert PROMTOOL is not None
    done = subprocess.run([PROMTOOL, *arguments], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def test_promtool_accepts_config_and_rules(tmp_path: Path) -> None:
    rules, config = tmp_path / "alerts.yml", tmp_path / "prometheus.yml"
    generate("alerts", "--topics", "orders,payments", "--output", str(rules))
    promtool("check", "rules", "--lint-fatal", str(rules))
    targets = "broker-1=127.0.0.1:9404,controller-3001=[::1]:9405,daemon.example:1"
    for interval in ("1s", "15s", "2m"):
        options = ["--targets", targets, "--rules", rules.name, "--interval", interval]
        generate("prometheus", *options, "--output", str(config))
        promtool("check", "config", "--lint-fatal", str(config))


def test_every_query_of_the_dashboard_is_an_expression(tmp_path: Path) -> None:
    """A recording rule takes nothing else."""
    file = tmp_path / "queries.yml"
    file.write_text(
        json.dumps(
            {
                "groups": [
                    {
                        "name": "dashboard",
                        "rules": [
                            {"record": f"query_{index}", "expr": expr}
                            for index, (_, expr) in enumerate(queries())
                        ],
                    }
                ]
            }
        )
    )
    promtool("check", "rules", str(file))


def expectation(cause: Cause, minute: int, *, fires: bool) -> dict[str, Any]:
    (alert,) = (each for each in ALERTS if each.name == cause.alert)
    for label in re.findall(r"\$labels\.(\w+)", alert.summary + alert.description):
        assert f"{label}=" in cause.labels, f"{alert.name} speaks of {label}, and has none"
    labels = f'{cause.labels},alertname="{alert.name}",alertstate="firing"'
    sample = {"labels": f'ALERTS{{{labels},severity="{alert.severity}"}}', "value": 1}
    return {
        "expr": f'ALERTS{{alertname="{alert.name}",alertstate="firing"}}',
        "eval_time": f"{minute}m",
        "exp_samples": [sample] if fires else [],
    }


def test_each_alert_fires_on_its_cause_not_at_once_and_clears(tmp_path: Path) -> None:
    assert {cause.alert for cause in CAUSES} == {alert.name for alert in ALERTS}
    generate("alerts", "--topics", "orders", "--output", str(tmp_path / "alerts.yml"))
    tests = [
        {
            "interval": "1m",
            "input_series": [
                {"series": name, "values": values} for name, values in cause.series.items()
            ],
            "promql_expr_test": [
                expectation(cause, cause.begins_at - 1, fires=False),
                expectation(cause, cause.fires_at, fires=True),
                expectation(cause, LAST, fires=False),
            ],
        }
        for cause in CAUSES
    ]
    file = tmp_path / "tests.yml"
    document = {"rule_files": ["alerts.yml"], "evaluation_interval": "1m", "tests": tests}
    file.write_text(json.dumps(document))
    promtool("test", "rules", str(file))
