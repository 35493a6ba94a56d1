"""The console of a local cluster: a process that ends with the process that started it."""

import subprocess
import sys

from .daemons import DaemonFailed

STOP_SECONDS = 5.0


class ConsoleProcess:
    """A console that shows one cluster, from `start` to `stop`."""

    def __init__(self, process: "subprocess.Popen[str]", address: str) -> None:
        self._process = process
        self.address = address

    @classmethod
    def start(cls, bootstrap: str, port: int) -> "ConsoleProcess":
        """Start the console and wait until it listens; raise DaemonFailed if it ends before."""
        command = [sys.executable, "-m", "minikafka", "console", "--until-input-ends"]
        command += ["--bootstrap-server", bootstrap, "--port", str(port)]
        # It reads its input to the end, which comes when we close it, or are killed.
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert process.stdout is not None
        ready, _, address = process.stdout.readline().strip().partition(" ")
        process.stdout.close()
        one = cls(process, address)
        if ready != "ready":
            one.stop()
            raise DaemonFailed("the console did not start")
        return one

    def stop(self) -> None:
        """End the console, and wait until its process has ended."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
