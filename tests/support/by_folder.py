"""Decides which worker runs a test when the slow tests run on several (`make test`)."""

from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

COMPUTING = ("oracle", "properties", "scenarios", "simulation")
"""Folders of tests that share no cluster."""


def folder_of(nodeid: str) -> str:
    """Name the folder in tests/, of `tests/FOLDER/.../test_x.py::test_y`."""
    return nodeid.split("/")[1]


class ByFolder(LoadScopeScheduling):  # type: ignore[misc]
    """Gives a folder whose tests share clusters to one worker, and other tests to any.

    For `--dist loadscope`. The marks of `--dist loadgroup` have no effect since pytest 9.2
    (pytest-xdist's issue 1386).

    If a worker dies, the test that it ran fails, and its replacement continues after that test.
    pytest-xdist would send the replacement only units that are done, and then wait for ever.
    """

    def _split_scope(self, nodeid: str) -> str:
        folder = folder_of(nodeid)
        return nodeid if folder in COMPUTING else folder

    def remove_node(self, node: WorkerController) -> str | None:
        """Take back the tests that a worker had not begun; return the one it died in, or None."""
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
        """Send units to a worker until none is left or the worker has enough.

        A worker begins a test only once it knows the next one, and one unit may be one test.
        """
        waiting = -1
        ready = node in self.registered_collections and not node.shutting_down
        while ready and waiting != len(self.workqueue):
            waiting = len(self.workqueue)
            super()._reschedule(node)
