"""docs/rest.md: each of its commands is executed, in the order of the page."""

from pathlib import Path

import pytest

from ..support.cluster import free_ports
from ..support.cluster_page import ClusterPage, outside_of_blocks, page_of

PAGE = page_of("rest.md")
PORT = "8082"


def test_whoever_copies_a_command_finds_it_in_a_block_that_is_executed() -> None:
    assert outside_of_blocks(PAGE) == []


@pytest.mark.slow
def test_every_command_works(tmp_path: Path) -> None:
    # The block about several proxies is an example of addresses, and is none that is executed.
    (port,) = free_ports(1)
    with ClusterPage(tmp_path) as page:
        shown = page.run_all(PAGE.replace(PORT, str(port)))
    topics, written, consumed, v3, stream, read = shown[1:]
    assert '"orders"' in topics
    assert written.count('"error_code":null') == 2
    assert '"value":{"tea":2}' in consumed
    assert '"kind":"KafkaTopic"' in v3
    assert '"total_lag":0' in v3
    assert stream.count('"error_code":200') == 3
    assert read.count('"type":"JSON","data":') >= 5
