"""Which worker runs a test, where the slow ones run on several (`make test`)."""

from xdist.scheduler import LoadScopeScheduling

COMPUTING = ("oracle", "properties", "scenarios", "simulation")
"""Folders of tests that share no cluster."""


def folder_of(nodeid: str) -> str:
    """Name the folder in tests/, of `tests/FOLDER/.../test_x.py::test_y`."""
    return nodeid.split("/")[1]


class ByFolder(LoadScopeScheduling):  # type: ignore[misc]
    """One worker takes all of a folder whose tests share clusters; of the others, any the next.

    For `--dist loadscope`. The marks of `--dist loadgroup` go unheeded since pytest 9.2
    (pytest-xdist's issue 1386).
    """

    def _split_scope(self, nodeid: str) -> str:
        folder = folder_of(nodeid)
        return nodeid if folder in COMPUTING else folder
