"""docs/audit.md: each of its commands is executed, in the order of the page."""

import json
import re
from pathlib import Path

import pytest

from ..support.cluster_page import ClusterPage, outside_of_blocks, page_of

PAGE = page_of("audit.md")


def test_whoever_copies_a_command_finds_it_in_a_block_that_is_executed() -> None:
    assert outside_of_blocks(PAGE) == []


@pytest.mark.slow
def test_every_command_works(tmp_path: Path) -> None:
    with ClusterPage(tmp_path) as page:
        shown = page.run_all(PAGE)
    tail, search, verified, again = shown[-4:]
    assert "broker/<default> minikafka.audit.enable: - -> true" in tail
    assert "topic/orders partitions: - -> 3" in tail
    assert "topic/orders partitions: 3 -> -" in tail
    first, *lines = search.splitlines()
    assert "User:ANONYMOUS at 127.0.0.1  IncrementalAlterConfigs: changed topic/orders" in first
    assert lines[0].strip() == "topic/orders retention.ms: - -> 60000"
    told = [json.loads(each) for each in lines[1:]]
    assert [each["data"]["action"] for each in told] == [
        "IncrementalAlterConfigs",
        "CreateTopics",
        "IncrementalAlterConfigs",
        "DeleteTopics",
    ]
    assert re.search(r"^The chain is whole: 5 records, offsets 0 to 4\.$", verified, re.MULTILINE)
    assert again == verified
