"""Findings about addresses, the APIs served at them, and clocks. Pure."""

from collections.abc import Iterator, Mapping
from typing import Final

from ...client.net.address import Address
from ...protocol.api import ApiKey
from ...protocol.schema import Versions
from .facts import Broker, Clock, Examined, Probe
from .findings import Finding, Severity

NEEDED: Final[Mapping[ApiKey, tuple[int, str]]] = {
    ApiKey.PRODUCE: (3, "produce"),
    ApiKey.FETCH: (4, "consume"),
    ApiKey.LIST_OFFSETS: (1, "look up offsets"),
    ApiKey.METADATA: (0, "find leaders"),
    ApiKey.FIND_COORDINATOR: (0, "find coordinators"),
    ApiKey.JOIN_GROUP: (2, "join groups"),
    ApiKey.SYNC_GROUP: (0, "join groups"),
    ApiKey.HEARTBEAT: (0, "stay in groups"),
    ApiKey.LEAVE_GROUP: (0, "leave groups"),
    ApiKey.OFFSET_COMMIT: (2, "commit offsets"),
    ApiKey.OFFSET_FETCH: (1, "resume at committed offsets"),
    ApiKey.INIT_PRODUCER_ID: (0, "produce idempotently, which is the default"),
    ApiKey.ADD_PARTITIONS_TO_TXN: (0, "use transactions"),
    ApiKey.END_TXN: (0, "use transactions"),
    ApiKey.CREATE_TOPICS: (2, "create topics"),
    ApiKey.DESCRIBE_CONFIGS: (1, "describe settings"),
}
"""By API, the lowest version that clients of Kafka 4 send (KIP-896), and what they do with it."""
SKEW_MS: Final = 2_000
"""Clocks that certainly differ by more milliseconds than this are reported."""
LOOPBACK: Final = ("localhost", "127.", "::1")

_CURES: Final = {
    "resolve": "Mend the name in DNS or /etc/hosts, or give an address that resolves here.",
    "connect": "Start the broker, or correct host and port; look for a firewall between.",
    "handshake": "The broker and this client do not accept each other's TLS: look at "
    "ssl.truststore.location, ssl.keystore.location and the names in the broker's certificate.",
    "negotiate": "Something listens there that does not answer as a broker does: correct the port; "
    "if it is right, the broker hangs or is stopped: look at its process and its log.",
    "log in": "The listener asks for a login: give security.protocol, sasl.mechanism and the "
    "password in the file of --command-config.",
    "metadata": "The broker accepts connections but does not answer: look at its log and its load.",
}


def connection_findings(found: Examined) -> Iterator[Finding]:
    """Yield what is wrong with the addresses by which clients reach the cluster."""
    for probe in found.bootstrap:
        if not probe.is_good:
            yield _unreachable("bootstrap", f"bootstrap {probe.address}", probe)
    yield from _clusters(found)
    yield from _shared_addresses(found)
    for _, broker in sorted(found.brokers.items()):
        yield from _advertised(found, broker)
        yield from _apis(broker)
    yield from _mixed(found)


def is_loopback(host: str) -> bool:
    """True if the host is a loopback name or address: each machine reaches itself by it."""
    return host.lower().startswith(LOOPBACK)


def _unreachable(kind: str, where: str, probe: Probe) -> Finding:
    phase, cause = probe.phase or "", probe.cause
    if "it is a controller" in cause:
        cure = "Give a broker's address; the controllers' belong to --controllers."
    elif "speaks HTTP" in cause:
        cure = "It is an HTTP server, perhaps the metrics listener: give the broker's own port."
    elif "speaks TLS" in cause:
        cure = (
            "Give security.protocol=SSL or SASL_SSL in the file of --command-config, or the port "
        )
        cure += "of a listener for plain text."
    else:
        cure = _CURES[phase]
        return Finding(f"unreachable-{kind}", Severity.ERROR, where, f"{phase}: {cause}", cure)
    return Finding("not-a-broker", Severity.ERROR, where, f"{phase}: {cause}", cure)


def _clusters(found: Examined) -> Iterator[Finding]:
    entry = found.entry
    for probe in found.bootstrap:
        if entry is not None and probe.is_good and probe.cluster_id != entry.cluster_id:
            yield Finding(
                "another-cluster",
                Severity.ERROR,
                f"bootstrap {probe.address}",
                f"it leads to cluster {probe.cluster_id}, {entry.address} to {entry.cluster_id}",
                "Name servers of one cluster only; clients take whichever answers first.",
            )


def _shared_addresses(found: Examined) -> Iterator[Finding]:
    at: dict[Address, list[int]] = {}
    for node_id, broker in sorted(found.brokers.items()):
        at.setdefault(broker.address, []).append(node_id)
    for address, nodes in at.items():
        if len(nodes) > 1:
            yield Finding(
                "shared-address",
                Severity.ERROR,
                str(address),
                f"brokers {_ids(nodes)} all advertise it, and one of them answers there",
                "Give each broker an advertised.listeners of its own, and restart it.",
            )


def _advertised(found: Examined, broker: Broker) -> Iterator[Finding]:
    probe, entry = broker.probe, found.entry
    if probe is None or entry is None:
        return
    where = f"broker {broker.node_id} at {broker.address}"
    cure = "Set advertised.listeners to what clients can reach, and restart the broker."
    if is_loopback(broker.address.host) and not is_loopback(entry.address.host):
        what = f"it advertises {broker.address.host}, which is each client's own machine"
        yield Finding("advertised-localhost", Severity.ERROR, where, what, cure)
    elif not probe.is_good:
        one = _unreachable("advertised", where, probe)
        what = f"{one.what}; the bootstrap server {entry.address} tells clients this address"
        if probe.phase == "connect":
            cure = f"If the broker runs, its advertised.listeners is wrong. {cure}"
        elif probe.phase != "resolve":
            cure = one.cure
        yield Finding(one.kind, one.severity, where, what, cure)
    elif probe.cluster_id != entry.cluster_id:
        what = f"a broker of cluster {probe.cluster_id} answers there, not of {entry.cluster_id}"
        yield Finding("another-cluster", Severity.ERROR, where, what, cure)
    elif probe.denial is not None and not _is_shared(found, broker):
        what = f"another broker answers there: {probe.denial}"
        yield Finding("another-broker", Severity.ERROR, where, what, cure)


def _is_shared(found: Examined, broker: Broker) -> bool:
    """True if another broker advertises the same address, which is a finding of its own."""
    others = [one for one in found.brokers.values() if one.node_id != broker.node_id]
    return any(one.address == broker.address for one in others)


def _apis(broker: Broker) -> Iterator[Finding]:
    probe = broker.probe
    if probe is None or not probe.is_good:
        return
    lacking: dict[str, list[str]] = {}
    for key, (lowest, purpose) in NEEDED.items():
        served = probe.versions.get(key)
        if served is None or served.last < lowest:
            told = "not at all" if served is None else f"up to version {served.last}"
            lacking.setdefault(purpose, []).append(f"{key.name} {told}")
    for purpose, apis in lacking.items():
        yield Finding(
            "api-missing",
            Severity.WARNING,
            f"broker {broker.node_id}",
            f"clients of Kafka 4 cannot {purpose} there: it serves {', '.join(apis)}",
            "Upgrade the broker, or use clients of its own age.",
            ("broker-api-versions",),
        )


def _mixed(found: Examined) -> Iterator[Finding]:
    ranges: dict[tuple[tuple[int, Versions], ...], list[int]] = {}
    for node_id, broker in sorted(found.brokers.items()):
        if broker.probe is not None and broker.probe.is_good and broker.probe.denial is None:
            ranges.setdefault(tuple(sorted(broker.probe.versions.items())), []).append(node_id)
    if len(ranges) > 1:
        yield Finding(
            "mixed-versions",
            Severity.WARNING,
            "the cluster",
            f"brokers serve different versions of APIs: {' / '.join(map(_ids, ranges.values()))}",
            "Finish the upgrade: restart the brokers that are left in the new version.",
            ("broker-api-versions",),
        )


def clock_findings(found: Examined) -> Iterator[Finding]:
    """Yield clocks that differ from this machine's, and those that could not be read."""
    clocks: dict[str, Clock] = {}
    unknown: list[int] = []
    if found.controllers.clock is not None:
        clocks["the active controller"] = found.controllers.clock
    for node_id, broker in sorted(found.brokers.items()):
        if broker.scrape is not None and broker.scrape.clock is not None:
            clocks[f"broker {node_id}"] = broker.scrape.clock
        elif broker.is_reachable:
            unknown.append(node_id)
    yield from _skewed(clocks)
    if unknown:
        yield Finding(
            "clock-unknown",
            Severity.NOTE,
            f"broker{'' if len(unknown) == 1 else 's'} {_ids(unknown)}",
            "no answer of a broker tells its clock, nor how long its flushes take, but its metrics",
            "Set metrics.listener on each broker, and let this machine reach it.",
        )


def _skewed(clocks: Mapping[str, Clock]) -> Iterator[Finding]:
    skewed = {who: clock for who, clock in clocks.items() if _exceeds(clock)}
    if len(clocks) > 1 and len(skewed) == len(clocks):
        aheads = [clock.ahead_ms for clock in clocks.values()]
        inexact_ms = 2 * max(clock.error_ms for clock in clocks.values())
        if max(aheads) - min(aheads) <= SKEW_MS + inexact_ms:
            skewed = {"this machine": Clock(-aheads[0], inexact_ms)}
    for who, clock in skewed.items():
        side = "ahead" if clock.ahead_ms > 0 else "behind"
        reference = "the cluster's clocks" if who == "this machine" else "the clock here"
        yield Finding(
            "clock-skew",
            Severity.WARNING,
            who,
            f"its clock is {abs(clock.ahead_ms) / 1000:.1f} s {side} of {reference} "
            f"(± {clock.error_ms / 1000:.1f} s): records get wrong times, and retention by time "
            "removes them too early or too late",
            "Let NTP or chrony set the clock; look at `timedatectl` there.",
        )


def _exceeds(clock: Clock) -> bool:
    return abs(clock.ahead_ms) - clock.error_ms > SKEW_MS


def _ids(nodes: list[int]) -> str:
    return ", ".join(map(str, nodes))
