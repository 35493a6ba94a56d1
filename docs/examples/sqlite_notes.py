"""A connector of one's own: new rows of an SQLite table become records, each once.

Run it by `connector.class=sqlite_notes:Notes`; docs/connect.md shows how.
"""

import sqlite3
import time

from minikafka.connect.api import Props, SourceConnector, SourceContext, SourceTask
from minikafka.connect.config_def import ConfigDef, ConfigKey, ConfigType
from minikafka.connect.records import SourceRecord


class NotesTask(SourceTask):
    """Reads the rows behind the last one."""

    def start(self, props: Props, context: SourceContext) -> None:
        """Go on behind the row that is stored as the offset."""
        super().start(props, context)
        self.db = sqlite3.connect(props["file"])
        self.where = {"file": props["file"]}
        self.last = (context.offsets.read(self.where) or {"id": 0})["id"]

    def poll(self) -> list[SourceRecord]:
        """Return the new rows; wait a little if there are none."""
        query = "select id, text from notes where id > ? order by id limit 500"
        rows = self.db.execute(query, (self.last,)).fetchall()
        if rows:
            self.last = rows[-1][0]
        else:
            time.sleep(self.context.poll_timeout_ms / 1000)
        topic, where = self.props["topic"], self.where
        return [
            SourceRecord(topic=topic, value=text, source_partition=where, source_offset={"id": row})
            for row, text in rows
        ]

    def stop(self) -> None:
        """Close the database."""
        self.db.close()


class Notes(SourceConnector):
    """Knows the keys of the configuration; one task reads all."""

    task = NotesTask
    config = ConfigDef(
        [
            ConfigKey("file", ConfigType.STRING, "The database, with a table notes(id, text)."),
            ConfigKey("topic", ConfigType.STRING, "The topic to write to."),
        ]
    )

    def exactly_once_support(self, props: Props) -> bool:
        """Return True: the offset says exactly where to go on."""
        return True
