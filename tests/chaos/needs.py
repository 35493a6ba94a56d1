"""The programs and rights that this suite needs, and which are missing. Installs nothing."""

import os
import shutil
from pathlib import Path

EVERYWHERE = ("unshare", "nsenter", "ip", "mount")
LINKS = ("tc",)
DISKS = ("mkfs.ext4", "umount", "/dev/loop-control")
SHIM = ("cc",)


def missing(needs: tuple[str, ...] = ()) -> list[str]:
    """Return what is missing of `needs` and of the needs of all faults; empty if nothing is."""
    found = [] if os.geteuid() == 0 else ["root"]
    for need in (*EVERYWHERE, *needs):
        is_there = Path(need).exists() if need.startswith("/") else shutil.which(need) is not None
        if not is_there:
            found.append(need)
    return found
