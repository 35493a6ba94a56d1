"""The life of a broker as the controller decides it: registration, fencing, controlled shutdown.

    state                broker wants        condition                        next
    fenced               to shut down                                         shut down now
    fenced               to serve            applied its own registration     unfenced
    unfenced             to be fenced                                         fenced
    unfenced             to shut down        leads nothing                    shut down now
    unfenced             to shut down        leads something                  controlled shutdown:
                                             others lead now, or, while there
                                             is time, once they caught up
    controlled shutdown                      leads nothing, and every active  shut down now
                                             broker knows who leads instead
    any                                      its lease expired                fenced

Persistent state is in the image. The offset up to which a broker has applied the log is not
persistent: the broker names it in each heartbeat.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ...protocol.control import records as r
from ...protocol.control.image import BrokerRegistration
from ...protocol.control.messages import (
    BrokerHeartbeat,
    BrokerRegistered,
    HeartbeatAnswer,
    RegisterBroker,
)
from ...protocol.errors import ApiError, ErrorCode
from ...protocol.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from ...runtime.config import INT32_MAX
from .decision import Cluster, Decision
from .sweeps import led_count, restarted_uncleanly, returned_cleanly, with_broker, without_broker

TEXT_BYTES_MAX: Final = 255


@dataclass(frozen=True, slots=True)
class HeartbeatContext:
    """Facts about brokers that the controller keeps in memory only."""

    shutdown_offset: int = -1
    """Offset of the last record that moved leaders off the asking broker."""
    applied_by_others: int | None = None
    """The lowest metadata offset that another active broker has applied; None without another."""
    may_wait: bool = False
    """True if a partition may stay with a leaving broker until another replica has caught up."""


def register(
    cluster: Cluster, request: RegisterBroker, *, has_live_lease: bool
) -> Decision[BrokerRegistered]:
    """Register one start of a broker, which is Kafka's incarnation.

    A new start is fenced at first. Its broker epoch is the offset of its registration record. The
    same start may register again: it keeps its epoch, and stays fenced or unfenced. The answer has
    an error if the request is wrong, or if another process with this node.id and with other
    directories is alive.
    """
    try:
        _check_registration(cluster, request)
    except ApiError as error:
        return Decision(BrokerRegistered(error.code, error.detail))
    old = cluster.image.brokers.get(request.broker_id)
    if old is not None and old.incarnation_id == request.incarnation_id:
        return _amend(old, request)
    # The new start holds the locks of its directories. If the old start had one of them too, it is
    # dead, even if its lease still runs.
    if old is not None and has_live_lease and not _shares_directory(old, request):
        detail = f"broker {request.broker_id} is alive with other directories: two processes have"
        detail = f"{detail} this node.id, stop one of them or wait until the other is fenced"
        return Decision(BrokerRegistered(ErrorCode.DUPLICATE_BROKER_REGISTRATION, detail))
    changes: list[r.MetadataRecord] = []
    if old is not None:
        changes.extend(_restarted(cluster, old, request))
    broker_epoch = cluster.next_offset + len(changes)
    changes.append(_registration(request))
    return Decision(BrokerRegistered(ErrorCode.NONE, broker_epoch=broker_epoch), changes)


def _restarted(
    cluster: Cluster, old: BrokerRegistration, request: RegisterBroker
) -> Sequence[r.MetadataRecord]:
    """Return the changes of partitions that a new start of a known broker causes.

    The broker kept all its records only if its previous start shut down cleanly, is the one that
    is registered, and had no directory that is missing now (KIP-966).
    """
    are_all_back = all(each in request.directory_ids for each in old.directory_ids)
    if are_all_back and request.previous_broker_epoch == old.broker_epoch:
        return returned_cleanly(cluster, old.broker_id)
    lost = () if are_all_back else old.directory_ids
    return restarted_uncleanly(cluster, old.broker_id, lost)


def _amend(old: BrokerRegistration, request: RegisterBroker) -> Decision[BrokerRegistered]:
    """Register the same start again, because an answer was lost or endpoints changed.

    The broker keeps its epoch, and stays fenced or unfenced.
    """
    answer = BrokerRegistered(ErrorCode.NONE, broker_epoch=old.broker_epoch)
    same = (
        old.directory_ids == request.directory_ids
        and old.endpoints == request.endpoints
        and old.rack == request.rack
        and old.features == request.features
    )
    return Decision(answer, () if same else (_registration(request, old),))


def _registration(
    request: RegisterBroker, old: BrokerRegistration | None = None
) -> r.RegisterBrokerRecord:
    return r.RegisterBrokerRecord(
        request.broker_id,
        request.incarnation_id,
        request.directory_ids,
        request.endpoints,
        request.rack,
        request.features,
        fenced=True if old is None else old.fenced,
        in_controlled_shutdown=False if old is None else old.in_controlled_shutdown,
        broker_epoch=-1 if old is None else old.broker_epoch,
    )


def unregister(
    cluster: Cluster, request: UnregisterBrokerRequest
) -> Decision[UnregisterBrokerResponse]:
    """Remove a broker's registration, whether it is alive or not, as Kafka does.

    The broker leaves every ISR and set of eligible leaders. A broker that still runs registers
    again by itself. As in Kafka, it then counts as stopped uncleanly, because nobody knows whether
    it still has its records. If it has the last good copy of a partition, its directories are
    noted, and it can lead that partition again only with those directories.
    """
    broker = cluster.image.brokers.get(request.broker_id)
    if broker is None:
        code = ErrorCode.BROKER_ID_NOT_REGISTERED
        why = f"Broker ID {request.broker_id} is not currently registered"
        return Decision(UnregisterBrokerResponse(error_code=code, error_message=why))
    records: list[r.MetadataRecord] = [
        *restarted_uncleanly(cluster, broker.broker_id, broker.directory_ids),
        r.UnregisterBrokerRecord(broker.broker_id, broker.broker_epoch),
    ]
    return Decision(UnregisterBrokerResponse(), records)


def _shares_directory(old: BrokerRegistration, request: RegisterBroker) -> bool:
    return any(directory in old.directory_ids for directory in request.directory_ids)


def _check_registration(cluster: Cluster, request: RegisterBroker) -> None:
    """Raise ApiError if the registration is malformed or does not fit the cluster."""
    who = f"broker {request.broker_id}"
    ids = (request.incarnation_id, *request.directory_ids)
    names = [endpoint.name for endpoint in request.endpoints]
    wrong = None
    if not 0 <= request.broker_id <= INT32_MAX:
        wrong = f"node.id must be between 0 and {INT32_MAX}"
    elif not request.directory_ids or any(len(each) != 16 for each in ids):
        wrong = "incarnation and directory ids are 16 bytes, and there is a directory"
    elif not names or len(dict.fromkeys(names)) != len(names):
        wrong = f"listeners {names} must be at least one, each named once"
    elif not all(0 < each.port < 1 << 16 and each.host for each in request.endpoints):
        wrong = "each listener needs a host and a port that others can connect to"
    elif any(len(each.encode()) > TEXT_BYTES_MAX for each in _texts(request)):
        wrong = f"names, hosts and rack have at most {TEXT_BYTES_MAX} bytes"
    elif other := _user_of_directories(cluster, request):
        wrong = f"broker {other.broker_id} registered one of its directories: was a disk copied?"
    if wrong is not None:
        raise ApiError(ErrorCode.INVALID_REGISTRATION, f"{who}: {wrong}")
    for feature, level in cluster.image.features.items():
        supported = request.features.get(feature)
        if supported is None or not supported.lowest <= level <= supported.highest:
            offered = "no level" if supported is None else f"{supported.lowest}-{supported.highest}"
            detail = f"{who} supports {offered} of {feature}, the cluster has finalised {level}"
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION, detail)


def _texts(request: RegisterBroker) -> Iterator[str]:
    yield request.rack or ""
    for endpoint in request.endpoints:
        yield from (endpoint.name, endpoint.host, endpoint.security_protocol)


def _user_of_directories(cluster: Cluster, request: RegisterBroker) -> BrokerRegistration | None:
    return next(
        (
            broker
            for broker in cluster.image.brokers.values()
            if broker.broker_id != request.broker_id and _shares_directory(broker, request)
        ),
        None,
    )


def heartbeat(
    cluster: Cluster, request: BrokerHeartbeat, context: HeartbeatContext
) -> Decision[HeartbeatAnswer]:
    """Move the broker towards the state it wants, as the module's table says."""
    try:
        broker = cluster.check_broker_epoch(request.broker_id, request.broker_epoch)
    except ApiError as error:
        return Decision(HeartbeatAnswer(error.code, error.detail))
    caught_up = request.metadata_offset >= broker.broker_epoch
    if broker.fenced:
        if request.want_shutdown:
            return _answer(caught_up, fenced=True, should_shut_down=True)
        if request.want_fence or not caught_up:
            return _answer(caught_up, fenced=True)
        return _answer(caught_up, fenced=False, changes=unfence(cluster, broker))
    if request.want_fence:
        changes = fence(cluster, broker)
        return _answer(
            caught_up, fenced=True, should_shut_down=request.want_shutdown, changes=changes
        )
    if broker.in_controlled_shutdown or request.want_shutdown:
        return _shut_down(cluster, broker, context, caught_up)
    return _answer(caught_up, fenced=False)


def _shut_down(
    cluster: Cluster, broker: BrokerRegistration, context: HeartbeatContext, caught_up: bool
) -> Decision[HeartbeatAnswer]:
    leads = led_count(cluster, broker.broker_id) > 0
    if not broker.in_controlled_shutdown and leads:
        change = r.BrokerChangeRecord(
            broker.broker_id, broker.broker_epoch, in_controlled_shutdown=True
        )
        moved = without_broker(cluster, broker.broker_id, unless_alone=context.may_wait)
        return _answer(caught_up, fenced=False, changes=[change, *moved])
    if leads:
        moved = without_broker(cluster, broker.broker_id, unless_alone=context.may_wait)
        return _answer(caught_up, fenced=False, changes=moved)
    if broker.in_controlled_shutdown and (
        context.applied_by_others is not None
        and context.applied_by_others < context.shutdown_offset
    ):
        return _answer(caught_up, fenced=False)
    changes = fence(cluster, broker)
    return _answer(caught_up, fenced=True, should_shut_down=True, changes=changes)


def fence(cluster: Cluster, broker: BrokerRegistration) -> list[r.MetadataRecord]:
    """Return the records that fence a broker.

    The broker leaves every ISR, leads nothing, and gets no new replicas until it is unfenced.
    """
    change = r.BrokerChangeRecord(broker.broker_id, broker.broker_epoch, fenced=True)
    return [*without_broker(cluster, broker.broker_id), change]


def unfence(cluster: Cluster, broker: BrokerRegistration) -> list[r.MetadataRecord]:
    """Return the records that unfence a broker, and let it lead partitions without a leader."""
    change = r.BrokerChangeRecord(
        broker.broker_id,
        broker.broker_epoch,
        fenced=False,
        in_controlled_shutdown=False if broker.in_controlled_shutdown else None,
    )
    return [change, *with_broker(cluster, broker.broker_id)]


def fence_expired(cluster: Cluster, broker_id: int, broker_epoch: int) -> Decision[None]:
    """Fence this start of the broker, whose lease is over.

    Nothing happens if a newer start has registered, or if the broker is fenced already.
    """
    broker = cluster.image.brokers.get(broker_id)
    if broker is None or broker.broker_epoch != broker_epoch or broker.fenced:
        return Decision(None)
    return Decision(None, fence(cluster, broker))


def _answer(
    caught_up: bool,
    *,
    fenced: bool,
    should_shut_down: bool = False,
    changes: Sequence[r.MetadataRecord] = (),
) -> Decision[HeartbeatAnswer]:
    answer = HeartbeatAnswer(
        ErrorCode.NONE,
        is_caught_up=caught_up,
        is_fenced=fenced,
        should_shut_down=should_shut_down,
    )
    return Decision(answer, changes)
