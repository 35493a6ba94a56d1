"""`minikafka generate`: its files, what it refuses, and that they ask only for what is served."""

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from minikafka.deploy.cli import minikafka
from minikafka.deploy.generate.alerts import Alert, Patience, alerts
from minikafka.deploy.generate.command import RUNBOOK_URL
from minikafka.deploy.generate.prometheus import Target, parse_targets, targets_in
from minikafka.deploy.generate.yaml_text import Value, text_of
from minikafka.deploy.layout import Layout
from minikafka.runtime.errors import ConfigError

ROOT = Path(__file__).parents[2]
ALERTS = list(alerts("minikafka", Patience(300, ("orders",), "15m")))
METRIC = re.compile(r"\b(?:kafka|minikafka|process)_\w+")
SERVED_BY_PROMETHEUS = ("up",)


def generate(*arguments: str) -> Result:
    return CliRunner().invoke(minikafka, ["generate", *arguments])


def dashboard() -> dict[str, Any]:
    model: dict[str, Any] = json.loads(generate("grafana").stdout)
    return model


CHOICES = {
    "$__rate_interval": "1m",
    "$__range": "1h",
    "$job": "minikafka",
    "$instance": ".+",
    "$topic": ".+",
    "$consumer_group": ".+",
}
"""What Grafana puts in for variables of which all is chosen."""


def queries() -> Iterator[tuple[str, str]]:
    """Every panel's title with each of its expressions, as Grafana sends them."""
    for panel in dashboard()["panels"]:
        for target in panel.get("targets", ()):
            expr = target["expr"]
            for variable, value in CHOICES.items():
                expr = expr.replace(variable, value)
            yield panel["title"], expr


def test_yaml_quotes_what_would_be_read_as_something_else() -> None:
    document: dict[str, Value] = {
        "plain": "words-and/paths.yml",
        "not text": ["yes", "15", "a: b", "", "15s", 'it\'s "so"', "two\nlines"],
        "number": 15,
        "none": [],
        "nested": [{"a": {"b": "c"}, "d": [{"e": "f"}]}, {}],
    }
    assert text_of(document) == (
        "plain: words-and/paths.yml\n"
        '"not text":\n'
        '  - "yes"\n'
        '  - "15"\n'
        '  - "a: b"\n'
        '  - ""\n'
        "  - 15s\n"
        "  - 'it''s \"so\"'\n"
        "  - |-\n"
        "    two\n"
        "    lines\n"
        "number: 15\n"
        "none: []\n"
        "nested:\n"
        "  - a:\n"
        "      b: c\n"
        "    d:\n"
        "      - e: f\n"
        "  - {}\n"
    )


def test_targets_are_addresses_with_or_without_the_names_of_nodes() -> None:
    assert list(parse_targets("broker-1=a:1, [::1]:9404,controller-3001=10.0.0.9:2")) == [
        Target("a:1", "broker", "1"),
        Target("[::1]:9404"),
        Target("10.0.0.9:2", "controller", "3001"),
    ]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["prometheus"], "one of --targets and --data"),
        (["prometheus", "--targets", "a"], "must be host:port"),
        (["prometheus", "--targets", "a:0"], "must be host:port"),
        (["prometheus", "--targets", "a:1,,b:2"], "must be host:port"),
        (["prometheus", "--targets", 'a"b:1'], "is no host"),
        (["prometheus", "--targets", "http://a:1"], "is no host"),
        (["prometheus", "--targets", "a:1,a:1"], "is named twice"),
        (["prometheus", "--targets", "leader-1=a:1"], "is like broker-1"),
        (["prometheus", "--targets", "a:1", "--interval", "0s"], "as in 15s"),
        (["prometheus", "--targets", "a:1", "--interval", "15"], "as in 15s"),
        (["prometheus", "--targets", "a:1", "--job", "a{b}"], "must be letters"),
        (["prometheus", "--targets", "a:1", "--rules", "a\nb"], "printable"),
        (["prometheus", "--targets", "a:1", "--output", "nowhere/x"], "cannot be written"),
        (["prometheus", "--data", "nowhere"], "holds no cluster"),
        (["alerts", "--topics", "a,b c"], "'b c' is no name of a topic"),
        (["alerts", "--topics", "a,"], "is no name of a topic"),
        (["alerts", "--lag-seconds", "0"], "--lag-seconds"),
        (["alerts", "--runbook-url", ""], "printable"),
    ],
)
def test_bad_input_is_refused_with_the_reason(arguments: list[str], why: str) -> None:
    result = generate(*arguments)
    assert result.exit_code != 0
    assert isinstance(result.exception, ConfigError | SystemExit), result.exception
    assert why in result.stderr + str(result.exception)


def test_the_targets_of_a_local_cluster_are_read_from_its_files(tmp_path: Path) -> None:
    Layout.plan(tmp_path, 2, 1, 20_000, metrics=True).write({}, {})
    assert list(targets_in(tmp_path)) == [
        Target("127.0.0.1:20005", "controller", "3001"),
        Target("127.0.0.1:20003", "broker", "1"),
        Target("127.0.0.1:20004", "broker", "2"),
    ]


def test_a_local_cluster_that_serves_no_metrics_is_refused(tmp_path: Path) -> None:
    Layout.plan(tmp_path, 1, 1, 20_000).write({}, {})
    with pytest.raises(ConfigError, match=r"controller\.properties of controller-3001 sets none"):
        list(targets_in(tmp_path))
    Layout.plan(tmp_path, 1, 1, 20_000).write(
        {"metrics.listener": "127.0.0.1:0"}, {"metrics.listener": "127.0.0.1:9404"}
    )
    with pytest.raises(ConfigError, match=r"metrics\.listener=127\.0\.0\.1:0: must be host:port"):
        list(targets_in(tmp_path))
    (tmp_path / "broker-1" / "server.properties").write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="cannot be read"):
        list(targets_in(tmp_path))


def test_the_scrape_config_labels_each_daemon(tmp_path: Path) -> None:
    output = tmp_path / "prometheus.yml"
    targets = "broker-1=127.0.0.1:9404,127.0.0.1:9405"
    options = ["--targets", targets, "--rules", "alerts.yml", "--interval", "5s"]
    result = generate("prometheus", *options, "--output", str(output))
    assert (result.exit_code, result.output) == (0, "")
    assert output.read_text() == (
        "global:\n"
        "  scrape_interval: 5s\n"
        "  evaluation_interval: 5s\n"
        "rule_files:\n"
        "  - alerts.yml\n"
        "scrape_configs:\n"
        "  - job_name: minikafka\n"
        "    static_configs:\n"
        "      - targets:\n"
        '          - "127.0.0.1:9404"\n'
        "        labels:\n"
        "          node_kind: broker\n"
        '          node_id: "1"\n'
        "      - targets:\n"
        '          - "127.0.0.1:9405"\n'
    )


def served() -> Iterator[str]:
    """The names of the samples that daemons give, by the page that is made from a scrape."""
    rows = re.findall(
        r"^\| `(\w+)` \| (\w+) \|", (ROOT / "docs" / "metrics.md").read_text(), re.MULTILINE
    )
    for name, kind in rows:
        yield name
        if kind == "summary":
            yield from (f"{name}_count", f"{name}_sum")


def test_alerts_and_dashboard_ask_only_for_what_is_served() -> None:
    known = set(served())
    variables = [str(each["query"]) for each in dashboard()["templating"]["list"]]
    texts = [*(alert.expr for alert in ALERTS), *(expr for _, expr in queries()), *variables]
    asked = [name for text in texts for name in METRIC.findall(text)]
    assert len(asked) > 60
    assert sorted(set(asked) - known) == []
    for alert in ALERTS:
        assert METRIC.search(alert.expr) or alert.expr.startswith(SERVED_BY_PROMETHEUS)


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: str(alert.name))
def test_each_alert_has_its_place_in_the_runbook_and_commands_that_help(alert: Alert) -> None:
    page = (ROOT / "docs" / "monitoring.md").read_text()
    paragraph = page.partition(f"\n### {alert.name}\n")[2].partition("\n##")[0]
    assert "\n```sh\n" in paragraph
    assert f"#{alert.name.lower()}\n" in generate("alerts", "--topics", "orders").stdout.replace(
        '"', ""
    )
    assert alert.severity in ("warning", "critical")


def test_the_runbook_has_no_other_alerts_and_is_where_the_project_says() -> None:
    page = (ROOT / "docs" / "monitoring.md").read_text().partition("\n## Alert by alert\n")[2]
    assert sorted(re.findall(r"^### (\w+)$", page, re.MULTILINE)) == sorted(
        alert.name for alert in ALERTS
    )
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["urls"]["Documentation"] + "/monitoring.md" == RUNBOOK_URL


def test_silence_is_watched_only_where_topics_are_named() -> None:
    assert "NoMessagesForTooLong" not in generate("alerts").stdout
    told = generate("alerts", "--topics", "a,b,a", "--silence", "2h").stdout
    assert told.count("alert: NoMessagesForTooLong") == 1
    assert told.count("for: 2h") == 1
    assert [
        told.count(
            f'absent(kafka_server_brokertopicmetrics_messagesin_total{{job="minikafka",topic="{topic}"}})'
        )
        for topic in "ab"
    ] == [1, 1]


def test_the_panels_of_the_dashboard_fill_its_grid() -> None:
    panels = dashboard()["panels"]
    ids = [panel["id"] for panel in panels]
    assert ids == list(dict.fromkeys(ids))
    taken: dict[tuple[int, int], str] = {}
    for panel in panels:
        place = panel["gridPos"]
        assert 0 <= place["x"] < place["x"] + place["w"] <= 24
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                assert (x, y) not in taken, f"{panel['title']} lies on {taken[x, y]}"
                taken[x, y] = panel["title"]
    titles = [panel["title"] for panel in panels]
    assert titles == list(dict.fromkeys(titles))


def test_the_dashboard_uses_the_variables_that_it_has() -> None:
    model = dashboard()
    variables = [each["name"] for each in model["templating"]["list"]]
    assert variables == ["datasource", "job", "instance", "topic", "consumer_group"]
    used = re.findall(r"\$\{?(\w+)", json.dumps(model))
    own = {name for name in used if not name.startswith("__")}
    assert own == set(variables)
    assert {name for name in used if name.startswith("__")} == {
        "__all",
        "__range",
        "__rate_interval",
    }


def test_each_series_is_named_by_labels_that_its_query_keeps() -> None:
    for panel in dashboard()["panels"]:
        for target in panel.get("targets", ()):
            kept = re.search(r"by \(([\w, ]+)\)", target["expr"])
            if kept is None:
                continue
            for label in re.findall(r"{{(\w+)}}", target["legendFormat"]):
                assert label in kept[1].split(", "), panel["title"]


UNITS = ("none", "short", "percentunit", "bytes", "Bps", "ms", "s", "cps", "reqps")
SCHEMA: dict[str, tuple[object, ...]] = {
    "type": ("row", "stat", "timeseries"),
    "fieldConfig.defaults.unit": UNITS,
    "fieldConfig.defaults.min": (0,),
    "fieldConfig.defaults.thresholds.mode": ("absolute", "percentage"),
    "fieldConfig.defaults.custom.fillOpacity": tuple(range(101)),
    "fieldConfig.defaults.custom.showPoints": ("auto", "never", "always"),
    "options.colorMode": ("value", "background", "background_solid", "none"),
    "options.legend.displayMode": ("list", "table", "hidden"),
    "options.legend.placement": ("bottom", "right"),
    "options.tooltip.mode": ("single", "multi", "none"),
    "options.tooltip.sort": ("asc", "desc", "none"),
}
"""Fields of panels, and the values that Grafana's schema (grafana/grafana, kinds/dashboard and the
panels' panelcfg) gives them."""
ANY_VALUE = ("id", "title", "gridPos", "collapsed", "panels", "datasource", "targets")
"""Fields that other tests look at, or that hold any text."""


def leaves(value: object, path: str = "") -> Iterator[tuple[str, object]]:
    """What a model holds outside of lists, each with its path."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, f"{path}.{key}" if path else key)
    elif not isinstance(value, list):
        yield path, value


def test_panels_have_the_fields_and_values_of_grafanas_schema() -> None:
    source = {"type": "prometheus", "uid": "${datasource}"}
    found: dict[tuple[str, object], None] = {}
    for panel in dashboard()["panels"]:
        look = {key: value for key, value in panel.items() if key not in ANY_VALUE}
        found |= dict.fromkeys(leaves(look))
        if panel["type"] == "row":
            continue
        assert panel["datasource"] == source
        references = [target["refId"] for target in panel["targets"]]
        assert references == sorted(dict.fromkeys(references))
        for target in panel["targets"]:
            assert target["datasource"] == source
            assert target["instant"] is not target["range"]
        thresholds = panel["fieldConfig"]["defaults"].get(
            "thresholds", {"steps": [{"value": None}]}
        )
        lowest, *others = [step["value"] for step in thresholds["steps"]]
        assert lowest is None
        assert others == sorted(others)
    assert [leaf for leaf in found if leaf[1] not in SCHEMA.get(leaf[0], ())] == []
    assert {path for path, _ in found} == SCHEMA.keys()
