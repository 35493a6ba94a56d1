"""Descriptors kept back for the disk, in a process of its own: the limit is the process's."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import os, resource, sys
from minikafka.runtime.descriptors import raise_descriptor_limit
from minikafka.runtime.fs import OsFileSystem

resource.setrlimit(resource.RLIMIT_NOFILE, (100, 150))
assert raise_descriptor_limit() == 150, "the soft limit becomes the hard one"
fs = OsFileSystem()
first = fs.open(sys.argv[1] + "/first", create=True)
taken = []
try:
    while True:
        taken.append(os.open(os.devnull, os.O_RDONLY))
except OSError:
    pass
second = fs.open(sys.argv[1] + "/second", create=True)
fs.fsync_dir_wait(sys.argv[1])
assert fs.listdir(sys.argv[1]) == ["first", "second"]
print(len(taken))
"""


@pytest.mark.slow
@pytest.mark.processes
def test_the_disk_has_descriptors_when_others_have_taken_all(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 100
