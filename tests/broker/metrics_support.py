"""One scrape of some collectors, read by the parser of Prometheus."""

from collections.abc import Iterable
from itertools import chain

from prometheus_client.openmetrics.parser import text_string_to_metric_families

from minikafka.runtime.metrics import Collector, Format, write


class Scrape:
    """What was told, by name and labels."""

    def __init__(self, collectors: Iterable[Collector]) -> None:
        families = chain.from_iterable(collect() for collect in collectors)
        text = b"".join(write(families, Format.OPEN_METRICS)).decode()
        parsed = list(text_string_to_metric_families(text))  # type: ignore[no-untyped-call]
        self.names = [family.name for family in parsed]
        self.samples = [sample for family in parsed for sample in family.samples]

    def __call__(self, name: str, **labels: str | int) -> float:
        """The one sample of that name that has these labels, and perhaps others."""
        (value,) = self.every(name, **labels)
        return value

    def every(self, name: str, **labels: str | int) -> list[float]:
        wanted = {key: str(value) for key, value in labels.items()}.items()
        return [
            sample.value
            for sample in self.samples
            if sample.name == name and wanted <= sample.labels.items()
        ]
