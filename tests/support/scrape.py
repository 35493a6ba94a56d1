"""One scrape, read by Prometheus's parser, and the values that a test's scrapes have read."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Any

from prometheus_client.openmetrics.parser import text_string_to_metric_families

from minikafka.runtime.metrics import Collector, Format, write

Readings = dict[str, dict[str, dict[str, None]]]
"""By family (its name in docs/metrics.md): each sample, and the values that scrapes read."""
_watching: list[Readings] = []


@contextmanager
def readings() -> Iterator[Readings]:
    """Record the values that scrapes read while the block runs."""
    found: Readings = {}
    _watching.append(found)
    try:
        yield found
    finally:
        _watching.remove(found)


class Scrape:
    """The samples of one scrape, by name and labels."""

    def __init__(self, collectors: Iterable[Collector]) -> None:
        families = chain.from_iterable(collect() for collect in collectors)
        self._read(b"".join(write(families, Format.OPEN_METRICS)).decode())

    @classmethod
    def of(cls, text: str) -> "Scrape":
        """Parse a daemon's response, in the format of OpenMetrics."""
        made = cls.__new__(cls)
        made._read(text)
        return made

    def _read(self, text: str) -> None:
        parsed: list[Any] = list(text_string_to_metric_families(text))  # type: ignore[no-untyped-call]
        self.names = [family.name for family in parsed]
        self.samples = [sample for family in parsed for sample in family.samples]
        for watching in _watching:
            for family in parsed:
                name = f"{family.name}_total" if family.type == "counter" else family.name
                samples = watching.setdefault(name, {})
                for sample in family.samples:
                    values = samples.setdefault(f"{sample.name}{sample.labels}", {})
                    values[str(float(sample.value))] = None

    def __call__(self, name: str, **labels: str | int) -> float:
        """Return the value of the one sample of that name with these labels, and perhaps others."""
        (value,) = self.every(name, **labels)
        return value

    def every(self, name: str, **labels: str | int) -> list[float]:
        wanted = {key: str(value) for key, value in labels.items()}.items()
        return [
            sample.value
            for sample in self.samples
            if sample.name == name and wanted <= sample.labels.items()
        ]
