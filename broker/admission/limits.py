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
        doc="Requests held in all, half received ones too, before large ones wait; -1: no bound.",
    )
    queued_max_response_bytes: int = setting(
        "minikafka.queued.max.response.bytes",
        512 * MiB,
        at_least=1,
        doc="Responses unsent in all before those clients are closed that hold them the longest.",
    )
    connections_max_idle_ms: int = setting(
        "connections.max.idle.ms",
        600_000,
        at_least=-1,
        doc="A client that completes no request for this long is closed; -1 never.",
    )
    connections_max_stall_ms: int = setting(
        "minikafka.connections.max.stall.ms",
        30_000,
        at_least=1,
        doc="A client that owes half a request, or reads no response, and moves no byte is closed.",
    )
    max_connections: int = setting(
        "max.connections",
        INT32_MAX,
        at_least=0,
        at_most=INT32_MAX,
        dynamic=True,
        doc="Clients beyond this, or than descriptors allow, replace silent ones or are closed.",
    )
    max_connections_per_ip: int = setting(
        "max.connections.per.ip",
        INT32_MAX,
        at_least=0,
        at_most=INT32_MAX,
        dynamic=True,
        doc="Clients of one address beyond this many are closed at once.",
    )
