"""The Grafana dashboard: its variables, its panels from top to bottom, and the JSON of both.

Pure. Source: the JSON model of Grafana's dashboards, schema version 39 (Grafana 11).
"""

import json
from collections.abc import Iterator
from typing import Any, Final

from .panels import ROWS, Panel

SCHEMA_VERSION: Final = 39
_SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
_WIDTH: Final = 24
_STAT_HEIGHT: Final = 4
_GRAPH_HEIGHT: Final = 8


def dashboard() -> str:
    """Return the dashboard as JSON, which Grafana can import or provision."""
    model = {
        "uid": "minikafka",
        "title": "minikafka",
        "tags": ["minikafka", "kafka"],
        "schemaVersion": SCHEMA_VERSION,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": list(_variables())},
        "panels": list(_placed()),
    }
    return json.dumps(model, indent=2) + "\n"


def _variables() -> Iterator[dict[str, Any]]:
    yield {
        "name": "datasource",
        "label": "Data source",
        "type": "datasource",
        "query": "prometheus",
        "refresh": 1,
    }
    yield _variable("job", "Cluster", "label_values(minikafka_build_info, job)")
    for name, label, query in (
        ("instance", "Instance", 'label_values(minikafka_build_info{job="$job"}, instance)'),
        ("topic", "Topic", 'label_values(kafka_topic_partitions{job="$job"}, topic)'),
        (
            "consumer_group",
            "Consumer group",
            'label_values(kafka_consumergroup_members{job="$job"}, consumergroup)',
        ),
    ):
        # Any value, in place of a list of thousands; but one: totals have no label `topic`.
        yield _variable(name, label, query) | {
            "multi": True,
            "includeAll": True,
            "allValue": ".+",
            "current": {"text": ["All"], "value": ["$__all"]},
        }


def _variable(name: str, label: str, query: str) -> dict[str, Any]:
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": _SOURCE,
        "query": {"query": query, "refId": name},
        "refresh": 2,
        "sort": 1,
    }


def _placed() -> Iterator[dict[str, Any]]:
    """Yield the panels with their positions and numbers, from left to right and top to bottom."""
    top = number = 0
    for title, panels in ROWS:
        number += 1
        place = {"x": 0, "y": top, "w": _WIDTH, "h": 1}
        yield {
            "id": number,
            "type": "row",
            "title": title,
            "gridPos": place,
            "collapsed": False,
            "panels": [],
        }
        top += 1
        across = len(panels) if panels[0].is_stat else 3
        width = _WIDTH // across
        height = _STAT_HEIGHT if panels[0].is_stat else _GRAPH_HEIGHT
        for index, panel in enumerate(panels):
            number += 1
            down, right = divmod(index, across)
            place = {"x": right * width, "y": top + down * height, "w": width, "h": height}
            yield {"id": number, "gridPos": place, **_model(panel)}
        top += -(-len(panels) // across) * height


def _model(panel: Panel) -> dict[str, Any]:
    defaults: dict[str, Any] = {"unit": panel.unit, "min": 0}
    if panel.is_stat:
        defaults["thresholds"] = {
            "mode": "absolute",
            "steps": [{"color": color, "value": start} for start, color in panel.colors],
        }
        options: dict[str, Any] = {
            "reduceOptions": {"calcs": ["lastNotNull"]},
            "colorMode": "background",
        }
    else:
        defaults["custom"] = {"fillOpacity": 10, "showPoints": "never"}
        options = {
            "legend": {"displayMode": "table", "placement": "bottom", "calcs": ["lastNotNull"]},
            "tooltip": {"mode": "multi", "sort": "desc"},
        }
    return {
        "type": "stat" if panel.is_stat else "timeseries",
        "title": panel.title,
        "datasource": _SOURCE,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": options,
        "targets": [
            {
                "refId": chr(ord("A") + index),
                "datasource": _SOURCE,
                "expr": expr,
                "legendFormat": legend,
                "instant": panel.is_stat,
                "range": not panel.is_stat,
            }
            for index, (expr, legend) in enumerate(panel.queries)
        ],
    }
