"""A container image's recipe, and a compose file that runs a cluster of it on one machine. Pure.

Source: the Compose Specification; the Dockerfile reference.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from .yaml_text import Value, text_of

FIRST_CONTROLLER_ID: Final = 3001
INSIDE_PORT: Final = 9092
CONTROLLER_PORT: Final = 9093
METRICS_PORT: Final = 9404
DATA: Final = "/var/lib/minikafka"
USER_ID: Final = 10001
KEY_DIRECTORY: Final = "/run/minikafka"
KEY: Final = f"{KEY_DIRECTORY}/control.key"
STOP_SECONDS: Final = 90
"""The longest that a clean stop may take: a daemon itself gives up after 60 seconds."""

KEY_IS_MADE: Final[Mapping[str, Value]] = {
    "control-key": {"condition": "service_completed_successfully"}
}

DOCKERFILE: Final = """\
# An image of minikafka: the daemons and the tools, run by a user without rights.
#   docker build -t {image} .
# PACKAGE may be any requirement of pip, or the address of a wheel.
FROM python:3.13-slim AS build
ARG PACKAGE="minikafka=={version}"
RUN python -m venv /opt/minikafka \\
 && /opt/minikafka/bin/pip install --no-cache-dir --disable-pip-version-check "$PACKAGE"

FROM python:3.13-slim
COPY --from=build /opt/minikafka /opt/minikafka
ENV PATH=/opt/minikafka/bin:$PATH
RUN useradd --system --uid {user} --home-dir {data} --shell /usr/sbin/nologin minikafka \\
 && install -d -m 0750 -o {user} -g {user} {data} {keys}
USER {user}
WORKDIR {data}
VOLUME {data}
STOPSIGNAL SIGTERM
CMD ["minikafka", "--help"]
"""


@dataclass(frozen=True, slots=True)
class Composed:
    """The size of the cluster, its image, and the port of its first broker on the machine."""

    brokers: int
    controllers: int
    port: int
    image: str
    version: str


def files(wanted: Composed) -> Iterator[tuple[PurePosixPath, str]]:
    """Yield the recipe of the image and the compose file."""
    yield PurePosixPath("Dockerfile"), dockerfile(wanted.image, wanted.version)
    yield PurePosixPath("compose.yaml"), text_of(document(wanted))


def dockerfile(image: str, version: str) -> str:
    """Return the recipe of an image with this version of the package."""
    return DOCKERFILE.format(
        image=image, version=version, user=USER_ID, data=DATA, keys=KEY_DIRECTORY
    )


def document(wanted: Composed) -> Mapping[str, Value]:
    """Return the compose file as a mapping."""
    controllers = [FIRST_CONTROLLER_ID + each for each in range(wanted.controllers)]
    quorum = ",".join(f"{each}@controller-{each}:{CONTROLLER_PORT}" for each in controllers)
    copies = min(3, wanted.brokers)
    common = {
        "controller.quorum.voters": quorum,
        "metrics.listener": f"127.0.0.1:{METRICS_PORT}",
        "log.dirs": f"{DATA}/data",
        "control.psk.file": KEY,
        "default.replication.factor": str(copies),
        "min.insync.replicas": str(min(2, copies)),
        "offsets.topic.replication.factor": str(copies),
        "transaction.state.log.replication.factor": str(copies),
        "transaction.state.log.min.isr": str(min(2, copies)),
    }
    services: dict[str, Value] = {"control-key": _key_service(wanted.image)}
    for node_id in controllers:
        settings = {
            "node.id": str(node_id),
            "listeners": f"CONTROLLER://0.0.0.0:{CONTROLLER_PORT}",
            **common,
        }
        services[f"controller-{node_id}"] = _service("controller", settings, wanted.image)
    for node_id in range(1, wanted.brokers + 1):
        port = wanted.port + node_id - 1
        settings = {
            "node.id": str(node_id),
            "listeners": f"INSIDE://0.0.0.0:{INSIDE_PORT},OUTSIDE://0.0.0.0:{port}",
            "advertised.listeners": f"INSIDE://broker-{node_id}:{INSIDE_PORT},"
            f"OUTSIDE://localhost:{port}",
            "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
            "inter.broker.listener.name": "INSIDE",
            **common,
        }
        services[f"broker-{node_id}"] = {
            **_service("broker", settings, wanted.image),
            "ports": [f"127.0.0.1:{port}:{port}"],
            "depends_on": {
                **KEY_IS_MADE,
                **{f"controller-{each}": {"condition": "service_started"} for each in controllers},
            },
        }
    return {
        "name": "minikafka",
        "services": services,
        "volumes": {name: {} for name in services},
    }


def _key_service(image: str) -> dict[str, Value]:
    """Return the service that makes the cluster's key, once, in a volume that daemons read."""
    return {
        "image": image,
        "build": ".",
        "command": ["minikafka", "generate", "key", f"--output={KEY}"],
        "volumes": [f"control-key:{KEY_DIRECTORY}"],
        "read_only": True,
        "network_mode": "none",
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges:true"],
        "restart": "no",
    }


def _service(role: str, settings: Mapping[str, str], image: str) -> dict[str, Value]:
    name = f"{role}-{settings['node.id']}"
    overrides = [f"--override={key}={value}" for key, value in settings.items()]
    ask = f"import urllib.request as u; u.urlopen('http://127.0.0.1:{METRICS_PORT}/health/ready')"
    return {
        "image": image,
        "build": ".",
        "hostname": name,
        "command": [f"minikafka-{role}", *overrides],
        "volumes": [f"{name}:{DATA}", f"control-key:{KEY_DIRECTORY}:ro"],
        "depends_on": KEY_IS_MADE,
        "read_only": True,
        "tmpfs": ["/tmp"],
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges:true"],
        "restart": "on-failure",
        "stop_grace_period": f"{STOP_SECONDS}s",
        "ulimits": {"nofile": 1_048_576},
        "healthcheck": {
            "test": ["CMD", "python", "-c", ask],
            "interval": "10s",
            "timeout": "5s",
            "start_period": "300s",
            "start_interval": "1s",
        },
    }
