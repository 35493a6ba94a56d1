"""The nursery and what it forks."""

import signal
from pathlib import Path

import pytest

from minikafka.deploy.daemons import Daemons

from .test_local_cluster import FAKES

BORN = 30


@pytest.mark.slow
def test_a_signal_to_a_daemon_that_was_just_forked_is_not_lost(tmp_path: Path) -> None:
    program = FAKES["broker"]
    daemons = Daemons(first=program)
    try:
        for number in range(BORN):
            properties = tmp_path / f"{number}.properties"
            properties.write_text(f"node.id=1\nlisteners=A://127.0.0.1:0\nlog.dirs={tmp_path}/d\n")
            log = tmp_path / "log"
            daemon = daemons.start(f"broker-{number}", program, [str(properties)], log=log)
            daemon.signal(signal.SIGTERM)
            assert daemons.wait(daemon, 20), f"of {BORN}, number {number} runs on"
    finally:
        daemons.close()
