"""One cluster of one broker for every test of this folder that only produces and consumes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ..support.cluster import Cluster, running_cluster


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    directory: Path = tmp_path_factory.mktemp("compat")
    with running_cluster(directory, brokers=1, broker_settings={"num.partitions": "3"}) as one:
        yield one
        one.stop()
