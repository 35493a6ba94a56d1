"""Metrics of the process: each is moved by what the process does, as the system reports it."""

import mmap
import os
import resource
import subprocess
import sys

import pytest

from minikafka.runtime import process_metrics
from minikafka.runtime.process_metrics import LoopDelay, ProcessMetrics
from minikafka.runtime.version import VERSION

from ..support.scrape import Scrape

MIB = 1 << 20
CHILD = """
from minikafka.runtime.metrics import Format, write
from minikafka.runtime.process_metrics import LoopDelay, ProcessMetrics
families = ProcessMetrics(LoopDelay(lambda: 0), lambda: 0)()
print(b"".join(write(families, Format.OPEN_METRICS)).decode(), end="")
"""


def scrape() -> Scrape:
    return Scrape([ProcessMetrics(LoopDelay(lambda: 0), lambda: 0)])


@pytest.mark.moves("process_cpu_seconds_total")
def test_computing_takes_seconds_of_cpu() -> None:
    before = scrape()("process_cpu_seconds_total")
    for _ in range(2_000):
        sum(range(10_000))
    assert before < scrape()("process_cpu_seconds_total") < before + 60


@pytest.mark.moves("process_resident_memory_bytes", "process_virtual_memory_bytes")
def test_memory_that_is_mapped_counts_and_where_it_is_written_to_it_is_resident() -> None:
    before = scrape()
    with mmap.mmap(-1, 64 * MIB) as memory:
        mapped = scrape()
        for page in range(0, len(memory), mmap.PAGESIZE):
            memory[page] = 1
        written = scrape()
    after = scrape()
    virtual, resident = "process_virtual_memory_bytes", "process_resident_memory_bytes"
    assert mapped(virtual) - before(virtual) > 60 * MIB > mapped(resident) - before(resident)
    assert written(resident) - mapped(resident) > 60 * MIB
    assert written(resident) - after(resident) > 60 * MIB
    assert written(virtual) - after(virtual) > 60 * MIB


@pytest.mark.moves("process_open_fds")
def test_descriptors_that_are_opened_and_closed() -> None:
    before = scrape()("process_open_fds")
    pipes = [os.pipe() for _ in range(10)]
    assert scrape()("process_open_fds") == before + 20
    for each in pipes:
        os.close(each[0])
        os.close(each[1])
    assert scrape()("process_open_fds") == before


@pytest.mark.moves("process_max_fds")
def test_the_limit_of_descriptors_is_what_was_set() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert scrape()("process_max_fds") == soft
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft - 1, hard))
    try:
        assert scrape()("process_max_fds") == soft - 1
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.moves("process_start_time_seconds")
def test_a_process_that_starts_later_says_so() -> None:
    child = subprocess.run(
        [sys.executable, "-c", CHILD], capture_output=True, text=True, timeout=60, check=True
    )
    name = "process_start_time_seconds"
    assert 0 < Scrape.of(child.stdout)(name) - scrape()(name) < 86_400


@pytest.mark.moves("minikafka_build_info")
def test_another_release_has_another_label(monkeypatch: pytest.MonkeyPatch) -> None:
    assert scrape()("minikafka_build_info", version=VERSION) == 1
    monkeypatch.setattr(process_metrics, "VERSION", "9.9.9")
    assert scrape()("minikafka_build_info", version="9.9.9") == 1
