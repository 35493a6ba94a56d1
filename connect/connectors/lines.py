"""Blocks of bytes cut into lines; the partial last line is kept until its end comes."""


class LineTooLong(ValueError):
    """A line has more bytes than are allowed."""


class LineSplitter:
    """Cuts the blocks of one file. Lines end with LF; they are returned without it."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._partial = b""

    @property
    def kept(self) -> int:
        """Bytes of the partial last line."""
        return len(self._partial)

    def feed(self, block: bytes) -> list[bytes]:
        """Return the lines that `block` completes.

        Raise LineTooLong once a line, or the part of it that is here, has more than `most` bytes.
        """
        lines = (self._partial + block).split(b"\n")
        self._partial = lines.pop()
        if len(self._partial) > self._most or (lines and max(map(len, lines)) > self._most):
            raise LineTooLong(f"a line has more than {self._most} bytes")
        return lines

    def take_partial(self) -> bytes:
        """Return the partial last line, and forget it."""
        partial, self._partial = self._partial, b""
        return partial


def text_of(line: bytes) -> str:
    """Return a line as text, without a CR at its end; U+FFFD stands for bytes that are no UTF-8."""
    return line.removesuffix(b"\r").decode("utf-8", "replace")
