"""Files in memory, where the system has them, for libraries that read a secret by its path."""

import contextlib
import os
from collections.abc import Iterator


@contextlib.contextmanager
def file_in_memory(content: bytes) -> Iterator[str]:
    """Yield the path of a file with this content, in memory and open to this process alone.

    Where the system has no such files (macOS), it is a temporary file that only this user can read,
    deleted after the block.
    """
    if not hasattr(os, "memfd_create"):
        import tempfile  # rarely needed

        with tempfile.NamedTemporaryFile() as file:
            file.write(content)
            file.flush()
            yield file.name
        return
    descriptor = os.memfd_create("minikafka")
    try:
        os.write(descriptor, content)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
