"""Which worker runs a test, where the slow ones run on several (`make test`)."""

from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

COMPUTING = ("oracle", "properties", "scenarios", "simulation")
"""Folders of tests that share no cluster."""


def folder_of(nodeid: str) -> str:
    """Name the folder in tests/, of `tests/FOLDER/.../test_x.py::test_y`."""
    return nodeid.split("/")[1]


class ByFolder(LoadScopeScheduling):  # type: ignore[misc]
    """One worker takes all of a folder whose tests share clusters; of the others, any the next.

    For `--dist loadscope`. The marks of `--dist loadgroup` go unheeded since pytest 9.2
    (pytest-xdist's issue 1386).

    A worker that dies fails the test it ran, and whoever replaces it goes on behind that test.
    pytest-xdist would send the replacement units that are done, and so nothing, for which it waits
    for ever.
    """

    def _split_scope(self, nodeid: str) -> str:
        folder = folder_of(nodeid)
        return nodeid if folder in COMPUTING else folder

    def remove_node(self, node: WorkerController) -> str | None:
        """Give back what a worker had not begun; returns the test it died of, None if it ended."""
        units = self.assigned_work.pop(node)
        left = [(unit, test) for unit in units.values() for test, done in unit.items() if not done]
        if not left:
            return None
        unit, died_of = left[0]
        unit[died_of] = True
        self.workqueue.update(
            {scope: unit for scope, unit in units.items() if not all(unit.values())}
        )
        for other in self.nodes:
            self._reschedule(other)
        return str(died_of)

    def _reschedule(self, node: WorkerController) -> None:
        """Send units until none is left or the worker has enough; one that starts has none yet.

        A worker begins a test only once it knows the next one, and one unit may be one test.
        """
        waiting = -1
        ready = node in self.registered_collections and not node.shutting_down
        while ready and waiting != len(self.workqueue):
            waiting = len(self.workqueue)
            super()._reschedule(node)
