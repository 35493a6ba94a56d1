"""What goes on while no controller is there, and what says that it cannot."""

import subprocess
import sys
from pathlib import Path

import pytest

from minikafka import Admin, NewTopic, Producer

from ..support.cluster import running_cluster

pytestmark = pytest.mark.slow
CODE = "from minikafka.deploy.cli import main; main()"


def test_new_producers_begin_while_no_controller_is_there(tmp_path: Path) -> None:
    with running_cluster(tmp_path, brokers=1) as cluster:
        with Admin(cluster.bootstrap) as admin:
            admin.create_topics([NewTopic("t", 1, 1)])
        cluster.controller.kill()
        for number in range(3):
            with Producer(cluster.bootstrap) as producer:
                assert producer.config.is_idempotent
                assert producer.send("t", b"x").result(20).offset == number


def test_a_command_that_needs_the_controller_says_so(tmp_path: Path) -> None:
    settings = {"request.timeout.ms": "1000"}
    with running_cluster(tmp_path, brokers=1, broker_settings=settings) as cluster:
        with Admin(cluster.bootstrap) as admin:
            admin.create_topics([NewTopic("t", 1, 1)])
        cluster.controller.kill()
        command = [sys.executable, "-c", CODE, "metadata-quorum"]
        ask = ["--bootstrap-server", cluster.bootstrap, "describe", "--status"]
        done = subprocess.run([*command, *ask], capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith("Error while executing quorum command: ")
        assert "no controller could be reached" in done.stderr
        assert len(done.stderr.splitlines()) == 1
        ask = ["--bootstrap-controller", cluster.controller.address, "describe", "--status"]
        done = subprocess.run([*command, *ask], capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stdout) == (1, "")
        assert f"{cluster.controller.address}: connect: " in done.stderr
