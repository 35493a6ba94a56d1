"""The figures on README's first screen are those of docs/benchmarks.md."""

from pathlib import Path

ROOT = Path(__file__).parents[2]


def row(page: str, begins: str) -> list[str]:
    """Give the cells of the first row of the page that begins so."""
    line = next(line for line in page.splitlines() if line.startswith(f"| {begins}"))
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_the_first_screen_tells_what_was_measured() -> None:
    page = (ROOT / "docs" / "benchmarks.md").read_text()
    first_screen = (ROOT / "README.md").read_text().partition("    make run")[0]
    _, first_ack = row(page, "up to first ack")
    _, memory = row(page, "broker-1 after ready")
    kill = row(page, "SIGKILL of a leader | ")
    trials, median, most, librdkafka = kill[1], kill[2], kill[4], kill[5]
    for told in (
        f"{first_ack}: three brokers",
        f"{memory} for each broker",
        f"stands still for {median} ms, at most {most} |",
        f"over {trials} kills",
        f"librdkafka's is {librdkafka} ms",
    ):
        assert told in first_screen, "docs/benchmarks.md says so"
