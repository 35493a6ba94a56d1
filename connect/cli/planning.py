"""The difference between connectors in files and those that run, as changes in order.

Pure. Values of keys that look like those of secrets are not shown, unless they are references.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from ...runtime.config import shown
from ..connector_files import ConnectorFile

HIDDEN: Final = "(hidden)"
_SIGNS: Final = {"create": "+", "update": "~", "delete": "-"}


@dataclass(frozen=True, slots=True)
class Change:
    """One connector to create, to update or to delete."""

    action: str
    """create, update or delete."""
    name: str
    config: Mapping[str, str]
    """The new configuration; empty if it is deleted."""
    state: str
    """The state that a new connector is created in."""
    keys: tuple[str, ...]
    """Lines that tell which keys change, and how."""

    def lines(self) -> Iterator[str]:
        """Yield the lines that show the change."""
        state = f" ({self.state})" if self.action == "create" and self.state != "RUNNING" else ""
        yield f"{_SIGNS[self.action]} {self.action} {self.name}{state}"
        yield from (f"    {line}" for line in self.keys)

    def as_json(self) -> dict[str, Any]:
        """Return the change without the values of its configuration."""
        told = asdict(self)
        del told["config"]
        return {**told, "keys": list(self.keys)}


def changes(
    wanted: Sequence[ConnectorFile], running: Mapping[str, Mapping[str, str]], *, prune: bool
) -> list[Change]:
    """Return what has to change so that the connectors are as in the files.

    Connectors that no file describes are deleted only with `prune`.
    """
    found: list[Change] = []
    for one in wanted:
        there = running.get(one.name)
        action = "create" if there is None else "update"
        lines = tuple(_difference(there or {}, one.config))
        if lines:
            found.append(Change(action, one.name, one.config, one.state, lines))
    if prune:
        kept = {one.name: None for one in wanted}
        gone = [name for name in sorted(running) if name not in kept]
        found += [Change("delete", name, {}, "", ()) for name in gone]
    return found


def _difference(old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[str]:
    for key in sorted({**old, **new}):
        if key == "name" or old.get(key) == new.get(key):
            continue
        if key not in old:
            yield f"+ {key} = {_shown(key, new[key])}"
        elif key not in new:
            yield f"- {key} = {_shown(key, old[key])}"
        else:
            yield f"~ {key} = {_shown(key, old[key])} -> {_shown(key, new[key])}"


def _shown(key: str, value: str) -> str:
    is_reference = value.startswith("${") and value.endswith("}")
    return value if is_reference or shown(key, value) is not None else HIDDEN
