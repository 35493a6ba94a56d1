"""The producer snapshots of one log: written at each roll, read when the log is opened.

A snapshot named N holds the producers as of offset N. One that is torn or missing costs a longer
replay of batch headers, never a wrong answer.
"""

from .files import SNAPSHOT, Files, file_name, offset_in
from .producer_state import ProducerState
from .segment import Segment


class ProducerSnapshots:
    """The `.snapshot` files in a log's directory."""

    __slots__ = ("_directory", "_files")

    def __init__(self, files: Files, directory: str) -> None:
        self._files = files
        self._directory = directory

    def offsets(self) -> list[int]:
        """What they are named for, in order."""
        names = self._files.names(self._directory)
        return [at for name in names if (at := offset_in(name, SNAPSHOT)) is not None]

    def save(self, state: ProducerState, end_offset: int) -> None:
        """Write the one for `end_offset`."""
        self._files.replace_small(self._path(end_offset), state.encode(end_offset))

    def newest(self, at_most: int, now_ms: int) -> tuple[int, ProducerState]:
        """The newest readable one not above an offset, and that offset; (-1, nothing) if none."""
        for at in reversed(self.offsets()):
            if at <= at_most and (data := self._files.read_small(self._path(at))) is not None:
                state = ProducerState.decode(data, now_ms)
                if state is not None:
                    return at, state
        return -1, ProducerState()

    def remove(self, offset: int) -> None:
        """Delete one."""
        self._files.remove(self._path(offset))

    def remove_above(self, offset: int) -> None:
        """Delete those that tell of batches which are no longer there."""
        for at in self.offsets():
            if at > offset:
                self.remove(at)

    def remove_strays(self, segments: list[Segment]) -> None:
        """Keep one per segment, and the newest."""
        bases = {segment.base_offset for segment in segments}
        for at in self.offsets()[:-1]:
            if at not in bases:
                self.remove(at)

    def _path(self, offset: int) -> str:
        return f"{self._directory}/{file_name(offset, SNAPSHOT)}"
