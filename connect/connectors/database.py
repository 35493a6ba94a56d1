"""The database of a SQL connector: its keys, its engine, its time, its tables, its errors.

It is reached by SQLAlchemy. Names of tables and columns are quoted by SQLAlchemy alone.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import sqlalchemy as sa
from sqlalchemy import exc

from ..api import ConnectError
from ..config_def import ConfigDef, ConfigKey, ConfigType, Importance
from .keys import secret, text, wrong_zone
from .sql_types import ExactDecimal

CONNECT_TIMEOUT_S = 10
_TIMEOUTS: Mapping[str, dict[str, Any]] = {
    "pysqlite": {"timeout": CONNECT_TIMEOUT_S},
    "psycopg": {"connect_timeout": CONNECT_TIMEOUT_S},
    "psycopg2": {"connect_timeout": CONNECT_TIMEOUT_S},
    "pymysql": {"connect_timeout": CONNECT_TIMEOUT_S},
    "mysqldb": {"connect_timeout": CONNECT_TIMEOUT_S},
    "pymssql": {"login_timeout": CONNECT_TIMEOUT_S},
}
"""By driver, what bounds the wait for a connection (SQLite: for a lock)."""
_NOW: Mapping[str, Any] = {
    "sqlite": sa.func.strftime("%Y-%m-%d %H:%M:%f", "now"),
    "mysql": sa.func.utc_timestamp(6),
    "mariadb": sa.func.utc_timestamp(6),
    "mssql": sa.func.sysutcdatetime(),
}
"""By dialect, the time in UTC; elsewhere the SQL function now(), which tells its zone."""


def _is_url(text: str) -> str | None:
    if text.strip().startswith("jdbc:"):
        return (
            "a JDBC address; write it as SQLAlchemy does: postgresql+psycopg://host:5432/database"
        )
    try:
        sa.make_url(text.strip())
    except exc.ArgumentError:
        return "no address as SQLAlchemy writes it: dialect+driver://user@host:port/database"
    return None


CONNECTION = ConfigDef(
    [
        ConfigKey(
            "connection.url",
            ConfigType.PASSWORD,
            "The database, as SQLAlchemy writes it: `postgresql+psycopg://host:5432/database`, "
            "`sqlite:////var/lib/app.db`. Its driver must be installed. Hidden in messages, since "
            "it may hold a password.",
            importance=Importance.HIGH,
            check=_is_url,
        ),
        text("connection.user", "The user, in place of the one in the address.", None),
        secret("connection.password", "The password, in place of the one in the address."),
        text(
            "db.timezone", "The zone of dates with a time that tell none.", "UTC", check=wrong_zone
        ),
    ]
)


class Database:
    """The engine of one task, and what is known of its dialect."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        url = sa.make_url(settings["connection.url"].strip())
        if settings["connection.user"] is not None:
            url = url.set(username=settings["connection.user"])
        if settings["connection.password"] is not None:
            url = url.set(password=settings["connection.password"])
        self.zone = ZoneInfo(settings["db.timezone"])
        try:
            driver = url.get_dialect().driver
            timeouts = _TIMEOUTS.get(driver, {}).items()
            arguments = {name: wait for name, wait in timeouts if name not in url.query}
            if url.get_backend_name() == "postgresql" and driver in ("psycopg", "psycopg2"):
                # Naive times that meet zoned ones are then of the zone that the user named.
                arguments["options"] = f"{asked_of(url)}-c timezone={self.zone.key}"
            self.engine = sa.create_engine(
                url, connect_args=arguments, hide_parameters=True, pool_pre_ping=True
            )
        except (exc.NoSuchModuleError, ImportError) as error:
            raise ConnectError(
                f"connection.url: no driver {url.drivername} ({error}); install it beside minikafka"
            ) from None
        self.dialect = self.engine.dialect.name

    def close(self) -> None:
        """Close its connections."""
        self.engine.dispose()

    def now(self, connection: sa.Connection) -> datetime:
        """Return the database's time, in UTC."""
        found = connection.execute(sa.select(_NOW.get(self.dialect, sa.func.now()))).scalar_one()
        value = datetime.fromisoformat(found) if isinstance(found, str) else found
        zoned: datetime = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        return zoned.astimezone(UTC)

    def table(self, name: str, schema: str | None = None) -> sa.Table:
        """Return the table as it is in the database now. Raise NoSuchTableError if it is not."""
        return sa.Table(
            name,
            sa.MetaData(),
            schema=schema,
            autoload_with=self.engine,
            resolve_fks=False,
            listeners=[("column_reflect", self._reflected)],
        )

    def tables(self) -> list[str]:
        """Return the names of the tables in the default schema, sorted."""
        return sorted(sa.inspect(self.engine).get_table_names())

    def in_zone(self, moment: datetime, column_type: Any) -> datetime:
        """Return the moment as a column of this type takes it."""
        if getattr(column_type, "timezone", False):
            return moment
        return moment.astimezone(self.zone).replace(tzinfo=None)

    def to_utc(self, value: datetime) -> datetime:
        """Return the moment that a column tells."""
        return (value if value.tzinfo else value.replace(tzinfo=self.zone)).astimezone(UTC)

    def _reflected(self, inspector: Any, table: sa.Table, column: dict[str, Any]) -> None:
        kind = column["type"]
        is_decimal = isinstance(kind, sa.Numeric) and not isinstance(kind, sa.Float)
        if self.dialect == "sqlite" and is_decimal:
            column["type"] = ExactDecimal(kind.precision, kind.scale)


def parse_name(text: str) -> tuple[str | None, str]:
    """Return schema and table of `schema.table`, or None and the table."""
    schema, _, name = text.rpartition(".")
    return schema or None, name


def asked_of(url: sa.URL) -> str:
    """Return the settings of PostgreSQL in an address, to be put before our own."""
    asked = url.query.get("options", "")
    return f"{asked if isinstance(asked, str) else ' '.join(asked)} "


def may_pass(error: Exception) -> bool:
    """Return True for failures of the connection, of locks and deadlocks: it may work later."""
    return isinstance(error, exc.OperationalError | exc.InterfaceError | exc.TimeoutError) or (
        isinstance(error, exc.DBAPIError) and error.connection_invalidated
    )


def told(error: Exception) -> str:
    """Return one line that says what failed, without statements, values and passwords."""
    origin = error.orig if isinstance(error, exc.DBAPIError) and error.orig else error
    first = str(origin).strip().splitlines()
    return f"{type(origin).__name__}: {first[0] if first else 'no reason given'}"
