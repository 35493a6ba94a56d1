"""Reports the metrics of clients to OpenTelemetry, which reads them whenever it collects.

Needs the extra `opentelemetry`. Nothing runs between two collections: instruments are observable,
and their callbacks read `metrics()` of each observed client.
"""

import asyncio
import logging
from collections.abc import Iterable
from functools import partial
from math import isnan
from typing import Any, Final
from weakref import WeakKeyDictionary

from ..runtime.version import VERSION
from .admin.admin import Admin
from .admin.sync_admin import Admin as SyncAdmin
from .consumer.consumer import Consumer
from .errors import ClientError
from .measures import MEASURES, Measure
from .metrics import NOTHING
from .producer.producer import Producer
from .sync_consumer import Consumer as SyncConsumer
from .sync_loop import call_on
from .sync_producer import Producer as SyncProducer

try:
    from opentelemetry.metrics import (
        CallbackOptions,
        Meter,
        MeterProvider,
        Observation,
        get_meter_provider,
    )
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        f"observing clients needs the extra: pip install 'minikafka[opentelemetry]' ({missing})"
    ) from missing

log = logging.getLogger(__name__)

Client = (
    Producer[Any, Any]
    | Consumer[Any, Any]
    | Admin
    | SyncProducer[Any, Any]
    | SyncConsumer[Any, Any]
    | SyncAdmin
)
KINDS: Final = {
    Producer: "producer",
    SyncProducer: "producer",
    Consumer: "consumer",
    SyncConsumer: "consumer",
    Admin: "admin",
    SyncAdmin: "admin",
}
SCHEMA_URL: Final = "https://opentelemetry.io/schemas/1.36.0"
CONVENTIONAL: Final = {
    "record-send-total": ("messaging.client.sent.messages", "send"),
    "records-consumed-total": ("messaging.client.consumed.messages", "poll"),
}
"""The metrics that the semantic conventions name, with the operation that counts in them."""
WAIT_S: Final = 1.0
"""The most seconds that a collection waits for the event loop of one client."""
CLOSED_KEPT: Final = 64
"""The most closed clients that wait for their last collection."""


def observe(client: Client, meter_provider: MeterProvider | None = None) -> None:
    """Report a client's metrics to OpenTelemetry until the client is closed, and then once more.

    `meter_provider` is by default the global one, which may also be set later. For an asyncio
    client, call this on the client's event loop; raise RuntimeError elsewhere. Raise TypeError if
    `client` is not a producer, consumer or admin of this library.

    Two metrics have the names of the semantic conventions: `messaging.client.sent.messages` and
    `messaging.client.consumed.messages`. The others are named `kafka.producer.request_latency_avg`
    and so on, after `metrics()`; rates are left out, as they follow from the totals. The attributes
    are `messaging.system`, `messaging.client.id` (a number is appended if another observed client
    has the same id) and `messaging.consumer.group.name`.

    A collection reads an asyncio client on its loop, and leaves it out if the loop is busy for more
    than a second. So shut the provider down when the loop has ended, or in another thread.
    """
    kind = next((name for cls, name in KINDS.items() if isinstance(client, cls)), None)
    if kind is None:
        raise TypeError(f"a producer, consumer or admin of minikafka, not {client!r}")
    is_sync = isinstance(client, SyncProducer | SyncConsumer | SyncAdmin)
    loop = None if is_sync else asyncio.get_running_loop()
    _instruments_of(meter_provider).add(_Source(client, kind, loop))


class _Source:
    """One observed client, whose metrics are read once per collection."""

    def __init__(self, client: Client, kind: str, loop: asyncio.AbstractEventLoop | None) -> None:
        """`loop` is the loop of an asyncio client; None for a client that any thread may read."""
        self.client = client
        self.kind = kind
        self.attributes: dict[str, str] = {"messaging.system": "kafka"}
        self._is_last = False
        """True once the closed client has been read for the last time."""
        self._loop = loop
        self._names = [measure.name for measure in MEASURES[kind] if not measure.is_rate]
        self._left: dict[str, float] = {}
        """The values of the newest reading that no instrument has got yet."""

    @property
    def is_over(self) -> bool:
        """True once the instruments have got all last values of the closed client."""
        return self._is_last and not self._left

    def take(self, name: str) -> float:
        """Return the value for one instrument; NaN if there is none.

        An instrument that asks for a value a second time belongs to another collection, for which
        the client is read anew.
        """
        if name not in self._left and not self._is_last:
            self._is_last = self.client.is_closed
            found = self._read()
            self._left = {each: found.get(each, NOTHING) for each in self._names}
        return self._left.pop(name, NOTHING)

    def _read(self) -> dict[str, float]:
        try:
            if self._loop is None:
                return self.client.metrics()
            return call_on(self._loop, self.client.metrics, WAIT_S)
        except (ClientError, TimeoutError) as error:
            log.debug("the metrics of %s could not be read: %r", self.attributes, error)
            return {}


class _Instruments:
    """The instruments of one meter provider, and the clients that they observe."""

    def __init__(self, provider: MeterProvider) -> None:
        meter = provider.get_meter("minikafka", VERSION, SCHEMA_URL)
        self._sources: dict[_Source, None] = {}
        # All at once: registering waits while a collection runs, which may wait for our loop.
        for kind, measures in MEASURES.items():
            for measure in measures:
                if not measure.is_rate:
                    self._register(meter, kind, measure)

    def _register(self, meter: Meter, kind: str, measure: Measure) -> None:
        name, operation = CONVENTIONAL.get(measure.name, ("", ""))
        extra = {"messaging.operation.name": operation} if operation else {}
        create = (
            meter.create_observable_counter if measure.is_total else meter.create_observable_gauge
        )
        create(
            name or f"kafka.{kind}.{measure.name.replace('-', '_')}",
            callbacks=[partial(self._observations, kind, measure.name, extra)],
            unit="{message}" if operation else measure.unit,
            description=measure.doc,
        )

    def add(self, source: _Source) -> None:
        """Observe a client from the next collection on."""
        closed = [one for one in self._sources if one.client.is_closed]
        for one in closed[:-CLOSED_KEPT]:
            self._sources.pop(one, None)
        config = source.client.config
        group_id = getattr(config, "group_id", None)
        if group_id is not None:
            source.attributes["messaging.consumer.group.name"] = group_id
        taken = [one.attributes["messaging.client.id"] for one in self._sources]
        name, number = config.client_id, 1
        while name in taken:
            number += 1
            name = f"{config.client_id}-{number}"
        source.attributes["messaging.client.id"] = name
        self._sources[source] = None

    def _observations(
        self, kind: str, name: str, extra: dict[str, str], _: CallbackOptions
    ) -> Iterable[Observation]:
        found = []
        for source in list(self._sources):
            if source.kind != kind:
                continue
            value = source.take(name)
            if source.is_over:
                self._sources.pop(source, None)
            if not isnan(value):
                found.append(Observation(value, source.attributes | extra))
        return found


_of_providers: WeakKeyDictionary[MeterProvider, _Instruments] = WeakKeyDictionary()
_globally: list[_Instruments] = []
"""The instruments of the global provider, or none yet."""


def _instruments_of(provider: MeterProvider | None) -> _Instruments:
    """Return a provider's instruments, made at the first call: it ignores a second set."""
    is_global = provider is None or provider is get_meter_provider()
    if is_global and _globally:
        # Made of a stand-in before the global provider was set, they have become the provider's.
        return _globally[0]
    chosen = get_meter_provider() if provider is None else provider
    found = _of_providers.get(chosen)
    if found is None:
        found = _of_providers[chosen] = _Instruments(chosen)
    if is_global:
        _globally.append(found)
    return found
