"""minikafka.Python: a function of yours as a transformation.

    transforms.mine.type=minikafka.Python
    transforms.mine.code.path=/etc/connect/mine.py
    transforms.mine.function=transform

The function is given a record, changes it by `record.with_(...)`, and returns it, None to drop it,
or a list of records.
"""

from collections.abc import Callable, Mapping
from typing import Any

from ..config_def import BadConfig, ConfigDef
from ..user_code import load, no_file
from .parts import a_text, is_empty
from .transformation import Transformation


class Python(Transformation):
    """Calls a function of a Python file that lies on the worker."""

    config = ConfigDef(
        [
            a_text("code.path", "A Python file on each worker.", check=no_file),
            a_text(
                "function",
                "The function in it: record -> record, None or a list of records.",
                "transform",
                check=is_empty,
            ),
        ]
    )

    def configure(self, props: Mapping[str, str]) -> None:
        """Run the file. Raise BadConfig if it fails or has no such function."""
        settings = self.config.parse(props)
        path, name = settings["code.path"], settings["function"]
        function = load(path).get(name)
        if not callable(function):
            raise BadConfig(f"{path} has no function {name}")
        self._function: Callable[[Any], Any] = function

    def apply(self, record: Any) -> Any:
        """Return what the function returns."""
        return self._function(record)
