"""Names that users give as regular expressions: RE2, joined as in DefaultTopicFilter."""

from collections.abc import Mapping, Sequence
from typing import Any

from ...protocol.patterns import compiled


def pattern_of(names: Sequence[str]) -> Any:
    """Return the pattern that matches any of `names`, None of no name; raise ValueError."""
    wanted = [name for name in names if name]
    return compiled("|".join(wanted)) if wanted else None


class NameFilter:
    """Names that match `include` and do not match `exclude`."""

    def __init__(self, settings: Mapping[str, Any], key: str) -> None:
        """Take the patterns of `key` and `key`.exclude."""
        self._include = pattern_of(settings[key])
        self._exclude = pattern_of(settings[f"{key}.exclude"])

    def takes(self, name: str) -> bool:
        """True if the whole name is included and not excluded."""
        if self._include is None or not self._include.fullmatch(name):
            return False
        return self._exclude is None or not self._exclude.fullmatch(name)
