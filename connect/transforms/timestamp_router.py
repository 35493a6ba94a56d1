"""TimestampRouter: a topic named by the record's time."""

from collections.abc import Mapping

from ..config_def import ConfigDef
from ..data import DataError
from ..logical import from_milliseconds
from .date_format import DateFormat, is_no_format
from .parts import a_text
from .transformation import R, Transformation


class TimestampRouter(Transformation):
    """Renames the topic. A record without a timestamp is an error."""

    config = ConfigDef(
        [
            a_text(
                "topic.format",
                "The new topic, of ${topic} and ${timestamp}.",
                "${topic}-${timestamp}",
            ),
            a_text(
                "timestamp.format",
                "The form of ${timestamp}, in letters of SimpleDateFormat.",
                "yyyyMMdd",
                check=is_no_format,
            ),
        ]
    )

    def configure(self, props: Mapping[str, str]) -> None:
        """Take both forms."""
        settings = self.config.parse(props)
        self._topic = settings["topic.format"]
        self._format = DateFormat(settings["timestamp.format"])

    def apply(self, record: R) -> R:
        """Return the record with its new topic."""
        if record.timestamp_ms is None:
            raise DataError(f"Timestamp missing on record of topic {record.topic}")
        text = self._format.format(from_milliseconds(record.timestamp_ms))
        topic = self._topic.replace("${topic}", record.topic).replace("${timestamp}", text)
        return record.with_(topic=topic)
