import re
from pathlib import Path

import pytest

import minikafka
from minikafka import aio
from minikafka.deploy.api_docs import write

pytest.importorskip("pdoc", reason="pdoc is not installed: it comes with the extra `docs`")


def test_every_public_name_has_its_place_in_the_reference(tmp_path: Path) -> None:
    write(tmp_path)
    pages = {"minikafka.html": minikafka.__all__, "minikafka/aio.html": aio.__all__}
    for page, names in pages.items():
        text = (tmp_path / page).read_text()
        told = set(re.findall(r'id="([\w.]+)"', text))
        assert {*names} - {"aio"} <= told
        assert {"Producer.send", "Consumer.poll", "Admin.create_topics"} <= told
    assert "minikafka/aio.html" in (tmp_path / "minikafka.html").read_text()
    assert str(Path.cwd()) not in (tmp_path / "minikafka.html").read_text()
