"""Writes the tables of keys in docs/connectors.md from the connectors' ConfigDefs.

python -m minikafka.deploy.connector_docs docs/connectors.md

A table stands between `<!-- keys of module:Class -->` and `<!-- end of keys -->`; the module is
below minikafka.connect. All other text of the page is left as it is.
"""

import importlib
import re
import sys
from pathlib import Path
from typing import Any, Final

from ..connect.config_def import INT32_MAX, INT64_MAX, ConfigKey, ConfigType, to_text

_TABLE: Final = re.compile(r"(?s)<!-- keys of ([\w.]+):(\w+) -->\n.*?<!-- end of keys -->")


def renewed(page: str) -> str:
    """Return the page with all its tables as the code says now."""
    return _TABLE.sub(lambda match: _table(match[1], match[2]), page)


def connectors_of(page: str) -> dict[str, Any]:
    """Return the classes that the page has tables of, by name."""
    return {match[2]: _class(match[1], match[2]) for match in _TABLE.finditer(page)}


def _class(module: str, name: str) -> Any:
    return getattr(importlib.import_module(f"..connect.{module}", __package__), name)


def _table(module: str, name: str) -> str:
    lines = [f"<!-- keys of {module}:{name} -->", "| key | default | allowed | what it is |"]
    lines += ["|---|---|---|---|", *map(_row, _class(module, name).config.keys.values())]
    return "\n".join([*lines, "<!-- end of keys -->"])


def _row(key: ConfigKey) -> str:
    if key.required:
        default = "required"
    else:
        default = f"`{to_text(key.default)}`" if key.default not in (None, "", []) else ""
    doc = key.doc.replace("|", r"\|")
    return f"| `{key.name}` | {default.replace('|', chr(92) + '|')} | {_allowed(key)} | {doc} |"


def _allowed(key: ConfigKey) -> str:
    if key.choices:
        return ", ".join(f"`{choice}`" for choice in key.choices)
    bounds = [key.type.value.lower()]
    if key.at_least is not None:
        bounds.append(f"at least {key.at_least}")
    most = INT64_MAX if key.type is ConfigType.LONG else INT32_MAX
    if key.at_most is not None and key.at_most < most:
        bounds.append(f"at most {key.at_most}")
    return ", ".join(bounds)


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(renewed(path.read_text()))
