"""The results of the pipeline: a table of airlines and a plot."""

from collections import defaultdict
from pathlib import Path

from .dataset import Delay, Delays


def by_airline(delays: Delays) -> dict[str, Delay]:
    """Add up the days of each airline; the airline with most departures comes first."""
    sums: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])
    for (airline, _), delay in delays.items():
        sums[airline][0] += delay.departures
        sums[airline][1] += delay.delay_minutes
    ordered = sorted(sums.items(), key=lambda item: (-item[1][0], item[0]))
    return {airline: Delay(*both) for airline, both in ordered}


def table(delays: Delays) -> str:
    """Return a table with one line for each airline."""
    lines = [f"{'AIRLINE':<28} {'DEPARTURES':>10} {'MEAN DELAY (min)':>17}"]
    for airline, delay in by_airline(delays).items():
        mean = delay.delay_minutes / delay.departures
        lines.append(f"{airline:<28} {delay.departures:>10,} {mean:>17.1f}")
    return "\n".join(lines)


def plot(delays: Delays, path: Path) -> None:
    """Save the mean delay of each airline, and of each day of the year, as a PNG."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.dates
    import matplotlib.pyplot as plt
    import numpy as np

    airlines = by_airline(delays)
    means = sorted((d.delay_minutes / d.departures, name) for name, d in airlines.items())
    days: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])
    for (_, day), delay in delays.items():
        days[day][0] += delay.departures
        days[day][1] += delay.delay_minutes
    calendar = sorted(days)
    daily = np.array([days[day][1] / days[day][0] for day in calendar])
    week = np.convolve(daily, np.ones(7) / 7, mode="valid")

    figure, (left, right) = plt.subplots(1, 2, figsize=(14, 5.5), layout="constrained")
    figure.suptitle("Departure delays from New York City, 2013: what the cluster delivered")
    bars = left.barh([name for _, name in means], [mean for mean, _ in means], color="#3b6ea5")
    left.bar_label(bars, fmt="%.1f", padding=3, fontsize=8)
    left.set_xlabel("mean delay of a departure (minutes)")
    left.spines[["top", "right"]].set_visible(False)
    dates = np.array(calendar, dtype="datetime64[D]")
    right.plot(dates, daily, color="#b9cde4", linewidth=0.8, label="day")
    right.plot(dates[3:-3], week, color="#c2502f", linewidth=1.8, label="mean of 7 days")
    right.xaxis.set_major_formatter(matplotlib.dates.DateFormatter("%b"))  # type: ignore[no-untyped-call]
    right.set_ylabel("mean delay of a departure (minutes)")
    right.spines[["top", "right"]].set_visible(False)
    right.legend(frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)
