"""The predicates of Kafka's Connect: which records a transformation is for (KIP-585)."""

from collections.abc import Mapping

from ..config_def import ConfigDef
from ..records import ConnectRecord
from .parts import a_text, is_empty
from .patterns import full_matcher, is_no_pattern
from .transformation import Predicate


class TopicNameMatches(Predicate):
    """Records whose whole topic name matches a pattern."""

    config = ConfigDef([a_text("pattern", "A regular expression.", check=is_no_pattern)])

    def configure(self, props: Mapping[str, str]) -> None:
        """Compile the pattern."""
        self._matches = full_matcher(self.config.parse(props)["pattern"])

    def test(self, record: ConnectRecord) -> bool:
        """Return True if the topic matches."""
        return self._matches(record.topic)


class HasHeaderKey(Predicate):
    """Records that have a header of this name."""

    config = ConfigDef([a_text("name", "The name of a header.", check=is_empty)])

    def configure(self, props: Mapping[str, str]) -> None:
        """Take the name."""
        self._name = self.config.parse(props)["name"]

    def test(self, record: ConnectRecord) -> bool:
        """Return True if a header has the name, whatever its value."""
        return any(header.key == self._name for header in record.headers)


class RecordIsTombstone(Predicate):
    """Records whose value is null."""

    def test(self, record: ConnectRecord) -> bool:
        """Return True if there is no value."""
        return record.value is None
