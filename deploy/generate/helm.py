"""A Helm chart: brokers and controllers as stateful sets, with the values of one cluster.

The templates are files beside this module, in chart/templates. Source: the chart guide of Helm 3.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files as resources
from pathlib import PurePosixPath
from typing import Final

from .yaml_text import Value, text_of

HELM_IGNORE: Final = "*.orig\n*.swp\n.git/\n"


@dataclass(frozen=True, slots=True)
class Charted:
    """The values of a chart: daemons, their image as REPOSITORY:TAG, volume size and version."""

    brokers: int
    controllers: int
    image: str
    storage: str
    """The size of each broker's volume, as Kubernetes writes it: `20Gi`."""
    version: str


def files(wanted: Charted) -> Iterator[tuple[PurePosixPath, str]]:
    """Yield each file of the chart."""
    yield PurePosixPath("Chart.yaml"), text_of(_chart(wanted.version))
    yield PurePosixPath("values.yaml"), text_of(values(wanted))
    yield PurePosixPath(".helmignore"), HELM_IGNORE
    templates = resources(__package__).joinpath("chart", "templates")
    for template in sorted(templates.iterdir(), key=lambda each: each.name):
        yield PurePosixPath("templates", template.name), template.read_text(encoding="utf-8")


def _chart(version: str) -> dict[str, Value]:
    return {
        "apiVersion": "v2",
        "name": "minikafka",
        "description": "A Kafka-compatible, replicated log cluster.",
        "type": "application",
        "version": version,
        "appVersion": version,
        "kubeVersion": ">=1.25.0-0",
    }


def values(wanted: Charted) -> dict[str, Value]:
    """Return the chart's values. A broker asks for one core, because it runs one event loop."""
    repository, _, tag = wanted.image.rpartition(":")
    return {
        "image": {"repository": repository, "tag": tag, "pullPolicy": "IfNotPresent"},
        "clusterDomain": "cluster.local",
        "controlKey": {"existingSecret": ""},
        "brokers": {
            "replicas": wanted.brokers,
            "minReadySeconds": 10,
            "storage": {"size": wanted.storage, "className": ""},
            "resources": _resources("1", "1Gi"),
            "settings": {},
        },
        "controllers": {
            "replicas": wanted.controllers,
            "storage": {"size": "2Gi", "className": ""},
            "resources": _resources("250m", "256Mi"),
            "settings": {},
        },
    }


def _resources(cpu: str, memory: str) -> dict[str, Value]:
    """Return a share of a core and a limit of memory; a limit of CPU would slow a daemon down."""
    return {"requests": {"cpu": cpu, "memory": memory}, "limits": {"memory": memory}}
