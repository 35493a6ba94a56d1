"""The audit log: what clients were denied, in Kafka's words and under the name of Kafka's logger.

A repeated denial is counted, and logged again with its count after ten seconds. At most LINES_MAX
denials are logged in ten seconds; all others are counted. So a client that tries again and again,
or names a hundred thousand topics in one request, fills no log and stops no loop.
"""

import logging
from collections.abc import Callable
from typing import Final, NamedTuple

from ..protocol.acls import Operation, Resource
from ..protocol.api import ApiKey
from ..protocol.errors import MOST_DETAIL
from .authorizer import Rights

SAY_AGAIN_MS: Final = 10_000
REMEMBERED_MAX: Final = 1_000
LINES_MAX: Final = 1_000
"""The most lines in SAY_AGAIN_MS; each takes some 50 µs of the event loop."""

log = logging.getLogger("kafka.authorizer.logger")


class Denial(NamedTuple):
    """A denied operation on a resource, and the API of the request that needed it."""

    operation: Operation
    resource: Resource
    name: str
    api_key: int


class Audit:
    """Logs denials, and remembers when each was logged."""

    def __init__(
        self,
        now_ms: Callable[[], int],
        tell: Callable[[Rights, Denial, int], None] = lambda *_: None,
        is_told: Callable[[], bool] = lambda: False,
    ) -> None:
        """While `is_told`, `tell` is called with each denial that would be logged at level INFO.

        It also gets the number of its repetitions since it was last told.
        """
        self.left_out = 0
        """The denials that were neither logged nor told, because they were too many."""
        self._now_ms = now_ms
        self._tell = tell
        self._is_told = is_told
        self._said: dict[tuple[object, ...], tuple[int, int]] = {}
        """The time at which each denial was logged, and how often it was repeated since."""
        self._counted_ms = now_ms() - SAY_AGAIN_MS
        self._line_count = self._left_out = 0
        """The lines logged since then, and the denials left out because they were too many."""

    def note(self, rights: Rights, denial: Denial) -> None:
        """Log a denial unless the same one, or too many, were logged in the last ten seconds."""
        is_told = self._is_told()
        if not is_told and not log.isEnabledFor(logging.INFO):
            return
        key, now_ms = (rights.principal, rights.host, *denial), self._now_ms()
        said_ms, count = self._said.get(key, (now_ms - SAY_AGAIN_MS, 0))
        if now_ms - said_ms < SAY_AGAIN_MS:
            self._said[key] = (said_ms, count + 1)
            return
        if not self._has_room(now_ms):
            self._left_out += 1
            self.left_out += 1
            return
        if key not in self._said and len(self._said) >= REMEMBERED_MAX:
            del self._said[next(iter(self._said))]
        self._said[key] = (now_ms, 0)
        more = f" (and {count} times since it was last said)" if count else ""
        log.info("%s%s", _line(rights, denial), more)
        if is_told:
            self._tell(rights, denial, count)

    def _has_room(self, now_ms: int) -> bool:
        """Count one more line; return False if there are too many."""
        if now_ms - self._counted_ms >= SAY_AGAIN_MS:
            if self._left_out:
                log.info("%d more denials were not told one by one", self._left_out)
            self._counted_ms, self._line_count, self._left_out = now_ms, 0, 0
        self._line_count += 1
        return self._line_count <= LINES_MAX


def _line(rights: Rights, denial: Denial) -> str:
    operation, resource, name, api_key = denial
    return (
        f"Principal = {_shown(str(rights.principal))} is Denied operation = {operation.name}"
        f" from host = {rights.host}"
        f" on resource = {_title(resource.name)}:LITERAL:{_shown(name)}"
        f" for request = {_title(ApiKey(api_key).name)} with resourceRefCount = 1"
        f" based on rule {_shown(_rule(rights, denial))}"
    )


def _rule(rights: Rights, denial: Denial) -> str:
    acl = rights.denying(denial.operation, denial.resource, denial.name)
    return "DefaultDeny" if acl is None else f"MatchingAcl(acl={acl})"


def _title(name: str) -> str:
    return name.title().replace("_", "")


def _shown(text: str) -> str:
    """Return a text of a client without characters that a terminal or a log would obey."""
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in text[: 4 * MOST_DETAIL])
