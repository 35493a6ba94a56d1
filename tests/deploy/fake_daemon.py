"""A daemon with the flags of the real ones that can be told to misbehave.

Its properties file says how: fake.exit.code, fake.ignore.sigterm, fake.never.ready,
fake.ignore.lifeline. It tells its story, line by line, in the file `story` beside its properties.
"""

import json
import os
import signal
import socket
import sys
import threading
import time
from pathlib import Path
from types import FrameType

from minikafka.runtime.config import parse_properties


def main() -> int:
    path, *flags = sys.argv[1:]
    fds = dict(flag.removeprefix("--").split("=") for flag in flags)
    properties = parse_properties(Path(path).read_text())
    story = Path(path).with_name("story")

    def tell(line: str) -> None:
        with story.open("a") as file:
            print(line, time.monotonic_ns(), file=file)

    if "fake.exit.code" in properties:
        print("listeners=x: cannot be used", file=sys.stderr)
        return int(properties["fake.exit.code"])
    stop = threading.Event()

    def on_sigterm(number: int, frame: FrameType | None) -> None:
        if "fake.ignore.sigterm" not in properties:
            tell("terminated")
            stop.set()

    def watch_lifeline() -> None:
        os.read(int(fds["lifeline-fd"]), 1)
        if "fake.ignore.lifeline" not in properties:
            tell("lifeline-closed")
            stop.set()

    signal.signal(signal.SIGTERM, on_sigterm)
    threading.Thread(target=watch_lifeline, daemon=True).start()
    host, _, port = properties["listeners"].rpartition("/")[2].rpartition(":")
    listener = socket.create_server((host, int(port)))
    Path(properties["log.dirs"]).mkdir(exist_ok=True)
    tell("started")
    if "fake.never.ready" not in properties:
        ready = {"node_id": int(properties["node.id"]), "listeners": {"PLAINTEXT": [host, port]}}
        os.write(int(fds["ready-fd"]), json.dumps(ready).encode() + b"\n")
    os.close(int(fds["ready-fd"]))
    stop.wait()
    listener.close()
    tell("ended")
    return 0
