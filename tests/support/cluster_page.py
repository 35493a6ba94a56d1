"""Pages of docs that begin with `minikafka up`, executed on ports that are free."""

import re
from pathlib import Path
from typing import Final

from .cluster import wait_until
from .page_shell import PageShell, sections

DOCS: Final = Path(__file__).parents[2] / "docs"
WITHIN_S: Final = 60.0
_PORT: Final = "9092"


def page_of(name: str) -> str:
    """Return the text of a page in docs/."""
    return (DOCS / name).read_text()


def outside_of_blocks(page: str) -> list[str]:
    """Return the commands of a page that stand in no block which is executed."""
    return re.findall(r"(?m)^minikafka.*$", re.sub(r"(?m)^```sh\n[\s\S]*?^```$", "", page))


class ClusterPage(PageShell):
    """A shell for the commands of one page; the page's cluster takes other ports."""

    def __init__(self, directory: Path) -> None:
        self._log = directory / "up.log"
        self._port = _PORT
        super().__init__(directory)

    def run(self, block: str, within_s: float = WITHIN_S) -> str:
        """Run a block; return what it printed. After `minikafka up` wait until it is ready."""
        here = block.replace(f"--port {_PORT}", "--port 0").replace(_PORT, self._port)
        shown = super().run(here, within_s)
        if "minikafka up" in block:
            self._port = wait_until(self._ready_port, within_s=within_s)
        return shown

    def run_all(self, page: str) -> list[str]:
        """Run every block of a page in order; return what each printed."""
        return [self.run(block) for _, blocks in sections(page) for block in blocks]

    def _ready_port(self) -> str | None:
        said = self._log.read_text() if self._log.exists() else ""
        found = re.search(r"ready bootstrap\.servers=[^:]+:(\d+)", said)
        return None if found is None else found[1]
