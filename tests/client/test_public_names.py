import json
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import minikafka
from minikafka import _HOME_OF, aio
from minikafka.client.net.greeting import SOFTWARE_VERSION

ROOT = Path(__file__).parents[2]


def test_every_public_name_can_be_had() -> None:
    for name in minikafka.__all__:
        assert getattr(minikafka, name) is not None
    assert set(minikafka.__all__) == {*_HOME_OF, "aio"}
    assert set(minikafka.__all__) <= set(dir(minikafka))
    for name in aio.__all__:
        assert getattr(aio, name) is not None


def test_the_version_stands_in_one_place() -> None:
    """A package is built with it, users are told it, and so are brokers."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "version" not in project["project"]
    module, _, name = project["tool"]["setuptools"]["dynamic"]["version"]["attr"].rpartition(".")
    assert minikafka.__version__ == getattr(import_module(module), name)
    assert minikafka.__version__ == SOFTWARE_VERSION


def test_importing_the_package_loads_nothing_else() -> None:
    """Start-up time of every tool: the names load on first use."""
    code = "import minikafka, sys, json; print(json.dumps(list(sys.modules)))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    loaded = json.loads(out.stdout)
    ours = [name for name in loaded if name.startswith("minikafka")]
    assert ours == ["minikafka"]
    assert "asyncio" not in loaded
    assert "uvloop" not in loaded
