"""The metrics that clients pushed last, as a scrape shows them.

A metric `org.apache.kafka.a.b` is shown as `kafka_client_a_b`, and a metric `c.d` as
`kafka_client_c_d`. The labels are the attributes of the sample, the client id and the instance id.
If all names and labels together exceed SHOWN_LENGTH_MAX characters, the client whose last push is
oldest is forgotten.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import chain
from typing import Final

from ...protocol.client_metrics import SELECTORS
from ...protocol.otlp import TEXT_MAX, Pushed, Sample
from ...runtime.metrics import Family, counter, gauge, labels

PREFIX: Final = "kafka_client_"
INFO: Final = PREFIX + "info"
_KAFKAS: Final = "org.apache.kafka."
_HELP: Final = "Pushed by clients."
_FOREIGN: Final = re.compile(r"[^a-zA-Z0-9_]")
_SUFFIXES: Final = re.compile(r"(_total|_created)+$")
_IN_SERIES: Final = ("client_id", "client_instance_id")
"""The attributes of a client that each of its samples has as labels."""
_OF_INFO: Final = tuple(each for each in SELECTORS if each != "client_source_port")
"""The attributes that INFO has as labels: all but the port, which changes with each connection."""
_RESOURCE: Final[tuple[str, ...]] = (
    "client_rack",
    "group_id",
    "group_instance_id",
    "group_member_id",
    "transactional_id",
)
"""The attributes that clients push about themselves by KIP-714; INFO has them as labels too."""

NAMES_KEPT: Final = 4_096
"""The most names, of metrics and of attributes, whose shown form is cached."""

Values = dict[str, float]
"""Values by labels in braces. A dictionary that is shown is replaced, not changed, because a scrape
may be reading it."""


class _Shown:
    """One metric with the values of each client, by instance id."""

    __slots__ = ("is_counter", "of_client")

    def __init__(self, is_counter: bool) -> None:
        self.is_counter = is_counter
        self.of_client: dict[bytes, Values] = {}


class _Held:
    """The names of one client's metrics, and the time until which they are shown."""

    __slots__ = ("info", "length", "names", "until_ms")

    def __init__(self, info: str, names: tuple[str, ...], length: int, until_ms: int) -> None:
        self.info = info
        self.names = names
        self.length = length
        self.until_ms = until_ms


class Readings:
    """The metrics of each client as of its last push."""

    def __init__(self, length_max: int) -> None:
        self.length = 0
        """The characters of all names and labels that are shown."""
        self._length_max = length_max
        self._shown: dict[str, _Shown] = {}
        self._held: dict[bytes, _Held] = {}

    def take(
        self, instance_id: bytes, client: Mapping[str, str], pushed: Pushed, until_ms: int
    ) -> bool:
        """Show the metrics of a push until `until_ms`, in place of the client's earlier ones.

        Return False if some samples are not shown. These are samples beyond a bound, metrics that
        another client pushes as another kind, counters that are negative or NaN, and sums with
        delta temporality, which no client is asked for.
        """
        own = _labels_of(client, _IN_SERIES)
        groups: dict[str, Values] = {}
        is_whole = pushed.is_whole
        for sample in pushed.samples:
            name = name_of(sample.name)
            if self._may_show(name, sample):
                groups.setdefault(name, {})[_tail(sample.attributes, own)] = sample.value
            else:
                is_whole = False
        self._drop(instance_id, (name for name in self._names(instance_id) if name not in groups))
        for name, values in groups.items():
            self._shown[name].of_client[instance_id] = values
        told = {key: pushed.resource[key] for key in _RESOURCE if key in pushed.resource}
        info = _tail(told, _labels_of(client, _OF_INFO))
        length = len(info) + sum(
            len(name) + sum(map(len, values)) for name, values in groups.items()
        )
        before = self._held.pop(instance_id, None)
        self.length += length - (0 if before is None else before.length)
        self._held[instance_id] = _Held(info, tuple(groups), length, until_ms)
        while self.length > self._length_max and len(self._held) > 1:
            self.forget(next(iter(self._held)))
        return is_whole

    def forget(self, instance_id: bytes) -> None:
        """Stop showing the metrics of a client."""
        held = self._held.pop(instance_id, None)
        if held is not None:
            self.length -= held.length
            self._drop(instance_id, held.names)

    def expire(self, now_ms: int) -> None:
        """Forget the clients whose `until_ms` has been reached at `now_ms`."""
        for instance_id, held in list(self._held.items()):
            if now_ms >= held.until_ms:
                self.forget(instance_id)

    def families(self) -> Iterator[Family]:
        """Yield INFO and each metric with the samples of all clients; nothing if there are none."""
        if not self._held:
            return
        told = [(held.info, 1.0) for held in self._held.values()]
        yield gauge(INFO, "1 for each client whose metrics are shown, with its attributes.", told)
        for name, shown in list(self._shown.items()):
            samples = chain.from_iterable([each.items() for each in shown.of_client.values()])
            yield (counter if shown.is_counter else gauge)(name, _HELP, samples)

    def _may_show(self, name: str, sample: Sample) -> bool:
        """Return whether the sample can be shown under the name; begin a metric if it is new."""
        if name == INFO or sample.is_delta:
            return False
        if sample.is_counter and not sample.value >= 0:
            return False  # OpenMetrics has no negative counters, and none that are NaN.
        shown = self._shown.get(name)
        if shown is None:
            shown = self._shown[name] = _Shown(sample.is_counter)
        return shown.is_counter == sample.is_counter

    def _names(self, instance_id: bytes) -> tuple[str, ...]:
        held = self._held.get(instance_id)
        return () if held is None else held.names

    def _drop(self, instance_id: bytes, names: Iterable[str]) -> None:
        for name in names:
            shown = self._shown[name]
            del shown.of_client[instance_id]
            if not shown.of_client:
                del self._shown[name]


@lru_cache(maxsize=NAMES_KEPT)
def name_of(metric: str) -> str:
    """Return the name under which a client's metric is shown, without the suffix `_total`."""
    return _SUFFIXES.sub("", PREFIX + _FOREIGN.sub("_", metric.removeprefix(_KAFKAS)))


def _labels_of(client: Mapping[str, str], keys: Iterable[str]) -> str:
    """Return those attributes of a client that are in `keys` and known, as labels in braces."""
    return labels(**{key: _printable(client[key]) for key in keys if key in client})


def _tail(attributes: Mapping[str, str], own: str) -> str:
    """Return `attributes` as labels in braces, followed by those in `own`.

    Attributes with the name of a label in every series are left out.
    """
    named = {_label_of(key): _printable(value) for key, value in attributes.items()}
    for key in _IN_SERIES:
        named.pop(key, None)
    return f"{labels(**named)[:-1]},{own[1:]}" if named else own


@lru_cache(maxsize=NAMES_KEPT)
def _label_of(key: str) -> str:
    """Make a label name of a key. Names that begin with two underscores are reserved."""
    name = _FOREIGN.sub("_", key).lstrip("_")
    return name if name and not name[0].isdigit() else f"attribute_{name}"


def _printable(text: str) -> str:
    """Cut a long text, and replace control characters, which a terminal would obey."""
    text = text[:TEXT_MAX]
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else "?" for each in text)
