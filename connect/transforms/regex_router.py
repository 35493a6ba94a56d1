"""RegexRouter: another topic for records whose topic matches a pattern."""

from collections.abc import Mapping

from ..config_def import BadConfig, ConfigDef
from .parts import a_text
from .patterns import is_no_pattern, java_pattern, replacement
from .transformation import R, Transformation


class RegexRouter(Transformation):
    """Renames the topic if the pattern matches it whole; then the first match is replaced."""

    config = ConfigDef(
        [
            a_text("regex", "A pattern for the whole topic.", check=is_no_pattern),
            a_text("replacement", "The new topic; $1 is the first group of the pattern."),
        ]
    )

    def configure(self, props: Mapping[str, str]) -> None:
        """Take pattern and replacement. Raise BadConfig if it names a group that is not there."""
        settings = self.config.parse(props)
        self._pattern = java_pattern(settings["regex"])
        text = settings["replacement"]
        try:
            self._replaced = replacement(text, self._pattern)
        except ValueError as error:
            raise BadConfig(
                f"Invalid value {text} for configuration replacement: {error}"
            ) from None

    def apply(self, record: R) -> R:
        """Return the record with its new topic."""
        topic = record.topic
        if self._pattern.fullmatch(topic) is None:
            return record
        found = self._pattern.search(topic)
        start, end = found.span()
        return record.with_(topic=f"{topic[:start]}{self._replaced(found)}{topic[end:]}")
