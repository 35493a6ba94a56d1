import json
import subprocess
import sys
from importlib.metadata import version

import minikafka
from minikafka import _HOME_OF, aio
from minikafka.client.net.connection import SOFTWARE_VERSION


def test_every_public_name_can_be_had() -> None:
    for name in minikafka.__all__:
        assert getattr(minikafka, name) is not None
    assert set(minikafka.__all__) == {*_HOME_OF, "aio"}
    assert set(minikafka.__all__) <= set(dir(minikafka))
    for name in aio.__all__:
        assert getattr(aio, name) is not None


def test_the_version_is_that_of_the_installed_package() -> None:
    assert minikafka.__version__ == version("minikafka")
    # What clients say of themselves to brokers must not fall behind.
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
