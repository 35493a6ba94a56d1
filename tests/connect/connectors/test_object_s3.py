"""The object store connectors against S3's API, as moto serves it on a port of this machine."""

import logging
from collections.abc import Iterator
from typing import Any

import fsspec
import pytest

from minikafka.connect.connectors.object_source import ObjectSourceTask

from .sql_support import FakeSourceContext, fed, polled
from .test_object_sink import T0, files_of, log_of, offsets_in, task_of

moto_server = pytest.importorskip("moto.server", reason="moto[server] is not installed")
pytest.importorskip("s3fs", reason="s3fs is not installed")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = moto_server.ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def keys(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    options = {"endpoint_url": endpoint, "key": "test", "secret": "test"}
    fs = fsspec.filesystem("s3", **options)
    fs.mkdir("bucket")
    yield {f"store.option.{name}": value for name, value in options.items()}
    fs.rm("bucket", recursive=True)


def test_s3_has_each_record_in_one_file_though_two_tasks_write(keys: dict[str, str]) -> None:
    given: dict[str, Any] = {"format": "parquet", **keys}
    zombie, old = task_of("s3://bucket/out", flush_size=4, **given)
    fed(zombie, old, log_of(4))
    heir, new = task_of("s3://bucket/out", flush_size=3, **given)
    assert new.seeks == {T0: 4}
    fed(heir, new, log_of(11))
    fed(zombie, old, log_of(12, start=4))
    assert old.seeks == {T0: 10}
    options = {name.removeprefix("store.option."): value for name, value in keys.items()}
    fs = fsspec.filesystem("s3", **options)
    fs.invalidate_cache()
    files = {path: fs.cat_file(path) for path in sorted(fs.find("bucket/out"))}
    assert list(files) == [f"bucket/out/t/partition=0/t+0+{n:010d}.parquet" for n in (0, 4, 7)]
    assert offsets_in(files) == list(range(10))
    task = ObjectSourceTask()
    props = {"store.url": "s3://bucket/out", "poll.interval.ms": "0", **keys}
    task.start(props, FakeSourceContext())
    assert [each.value for each in polled(task)] == [f"v{n}" for n in range(10)]
    assert files_of("memory://bucket") == {}
