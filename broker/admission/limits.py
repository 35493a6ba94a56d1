"""The settings that limit the connections of a broker: their number, memory and idle time."""

from ...runtime.config import INT32_MAX, config_table, setting

MiB = 1 << 20


@config_table
class ConnectionLimits:
    """Limits of the number, the memory and the idle time of client connections."""

    queued_max_request_bytes: int = setting(
        "queued.max.request.bytes",
        256 * MiB,
        at_least=-1,
        doc="Memory for requests, partly received ones included; above it large requests "
        "are not read until others are done. -1 means no limit.",
    )
    queued_max_response_bytes: int = setting(
        "minikafka.queued.max.response.bytes",
        512 * MiB,
        at_least=1,
        doc="Memory for unsent responses; above it the connections that have had unsent "
        "responses the longest are closed.",
    )
    connections_max_idle_ms: int = setting(
        "connections.max.idle.ms",
        600_000,
        at_least=-1,
        doc="A connection that completes no request for this long is closed; -1 means never.",
    )
    connections_max_stall_ms: int = setting(
        "minikafka.connections.max.stall.ms",
        30_000,
        at_least=1,
        doc="A connection is closed if it is in the middle of a request or a response and "
        "moves no byte for this long.",
    )
    max_connections: int = setting(
        "max.connections",
        INT32_MAX,
        at_least=0,
        at_most=INT32_MAX,
        dynamic=True,
        doc="The most connections; one more, or more than file descriptors allow, replaces "
        "an idle one or is closed.",
    )
    max_connections_per_ip: int = setting(
        "max.connections.per.ip",
        INT32_MAX,
        at_least=0,
        at_most=INT32_MAX,
        dynamic=True,
        doc="The most connections from one address; one more is closed at once.",
    )
