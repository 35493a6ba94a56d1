"""Finds the classes of connectors, converters, transformations, predicates and config providers.

A name is a built-in's, an entry point's, `module:Class`, or the name that Kafka's Connect has for
it, so that existing configurations run. A class is imported when it is asked for. Whatever goes
wrong in its module ends in a PluginError, which says what to do.
"""

import importlib
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final, NamedTuple

from ..runtime.errors import MinikafkaError
from ..runtime.spelling import did_you_mean
from ..runtime.version import VERSION
from .api import SinkConnector, SourceConnector


class PluginError(MinikafkaError):
    """There is no such class, or it cannot be used; the message says why and what to do."""


class PluginKind(Enum):
    """The kinds of plugins; the values are the `type` of Kafka's REST API (KIP-769)."""

    SOURCE = "source"
    SINK = "sink"
    CONVERTER = "converter"
    HEADER_CONVERTER = "header_converter"
    TRANSFORMATION = "transformation"
    PREDICATE = "predicate"
    CONFIG_PROVIDER = "config_provider"


CONNECTOR_KINDS: Final = (PluginKind.SOURCE, PluginKind.SINK)


class Builtin(NamedTuple):
    """One class that comes with minikafka."""

    name: str
    kind: PluginKind
    target: str
    """module:Class, below minikafka.connect."""
    java: str | None = None
    """The name of Kafka's class that it stands in for."""


_KAFKA = "org.apache.kafka."
_TRANSFORMS = _KAFKA + "connect.transforms."
_PROVIDERS = _KAFKA + "common.config.provider."


def _number(name: str) -> Builtin:
    java = f"{_KAFKA}connect.converters.{name}Converter"
    target = f"converters.numbers:{name}Converter"
    return Builtin(f"{name}Converter", PluginKind.CONVERTER, target, java)


def _twice(name: str, module: str) -> tuple[Builtin, ...]:
    """Return a transformation of keys and the same one of values."""
    return tuple(
        Builtin(
            f"{name}${part}",
            PluginKind.TRANSFORMATION,
            f"transforms.{module}:{name}{part}",
            f"{_TRANSFORMS}{name}${part}",
        )
        for part in ("Key", "Value")
    )


def _once(name: str, module: str) -> Builtin:
    target = f"transforms.{module}:{name}"
    return Builtin(name, PluginKind.TRANSFORMATION, target, _TRANSFORMS + name)


def _predicate(name: str) -> Builtin:
    java = f"{_TRANSFORMS}predicates.{name}"
    return Builtin(name, PluginKind.PREDICATE, f"transforms.predicates:{name}", java)


_SOURCE, _SINK, _CONVERTER = PluginKind.SOURCE, PluginKind.SINK, PluginKind.CONVERTER
_PROVIDER = PluginKind.CONFIG_PROVIDER

BUILTINS: Final = (
    Builtin(
        "FileStreamSource",
        _SOURCE,
        "connectors.file_stream:FileStreamSource",
        _KAFKA + "connect.file.FileStreamSourceConnector",
    ),
    Builtin(
        "FileStreamSink",
        _SINK,
        "connectors.file_stream:FileStreamSink",
        _KAFKA + "connect.file.FileStreamSinkConnector",
    ),
    Builtin("DirectorySource", _SOURCE, "connectors.directory:DirectorySource"),
    Builtin("Datagen", _SOURCE, "connectors.datagen:Datagen"),
    Builtin("Blackhole", _SINK, "connectors.blackhole:Blackhole"),
    Builtin("Schedule", _SOURCE, "connectors.schedule:Schedule"),
    Builtin("HttpSource", _SOURCE, "connectors.http_source:HttpSource"),
    Builtin("HttpSink", _SINK, "connectors.http_sink:HttpSink"),
    Builtin("SqlSource", _SOURCE, "connectors.sql_source:SqlSource"),
    Builtin("SqlSink", _SINK, "connectors.sql_sink:SqlSink"),
    Builtin("PostgresSource", _SOURCE, "connectors.postgres_source:PostgresSource"),
    Builtin("ObjectSource", _SOURCE, "connectors.object_source:ObjectSource"),
    Builtin("ObjectSink", _SINK, "connectors.object_sink:ObjectSink"),
    *(
        Builtin(
            f"Mirror{name}",
            _SOURCE,
            f"mirror.{name.lower()}:Mirror{name}",
            f"{_KAFKA}connect.mirror.Mirror{name}Connector",
        )
        for name in ("Source", "Checkpoint", "Heartbeat")
    ),
    Builtin(
        "JsonConverter",
        _CONVERTER,
        "converters.json:JsonConverter",
        _KAFKA + "connect.json.JsonConverter",
    ),
    Builtin(
        "StringConverter",
        _CONVERTER,
        "converters.text:StringConverter",
        _KAFKA + "connect.storage.StringConverter",
    ),
    Builtin(
        "ByteArrayConverter",
        _CONVERTER,
        "converters.raw:ByteArrayConverter",
        _KAFKA + "connect.converters.ByteArrayConverter",
    ),
    *(_number(name) for name in ("Integer", "Long", "Short", "Float", "Double", "Boolean")),
    Builtin(
        "SimpleHeaderConverter",
        PluginKind.HEADER_CONVERTER,
        "converters.headers:SimpleHeaderConverter",
        _KAFKA + "connect.storage.SimpleHeaderConverter",
    ),
    *_twice("Cast", "cast"),
    _once("DropHeaders", "drop_headers"),
    *_twice("ExtractField", "extract_field"),
    _once("Filter", "filter"),
    *_twice("Flatten", "flatten"),
    *_twice("HeaderFrom", "header_from"),
    *_twice("HoistField", "hoist_field"),
    *_twice("InsertField", "insert_field"),
    _once("InsertHeader", "insert_header"),
    *_twice("MaskField", "mask_field"),
    _once("RegexRouter", "regex_router"),
    *_twice("ReplaceField", "replace_field"),
    *_twice("SetSchemaMetadata", "set_schema_metadata"),
    *_twice("TimestampConverter", "timestamp_converter"),
    _once("TimestampRouter", "timestamp_router"),
    _once("ValueToKey", "value_to_key"),
    Builtin("minikafka.Python", PluginKind.TRANSFORMATION, "transforms.python:Python"),
    *(_predicate(name) for name in ("TopicNameMatches", "HasHeaderKey", "RecordIsTombstone")),
    Builtin("file", _PROVIDER, "providers:FileProvider", _PROVIDERS + "FileConfigProvider"),
    Builtin("env", _PROVIDER, "providers:EnvProvider", _PROVIDERS + "EnvVarConfigProvider"),
    Builtin("dir", _PROVIDER, "providers:DirProvider", _PROVIDERS + "DirectoryConfigProvider"),
)

ALIASES: Final = {row.java: row.name for row in BUILTINS if row.java is not None}
"""The built-in for each of Kafka's class names."""

_GROUPS: Final = {
    "minikafka.connectors": CONNECTOR_KINDS,
    "minikafka.converters": (PluginKind.CONVERTER, PluginKind.HEADER_CONVERTER),
    "minikafka.transforms": (PluginKind.TRANSFORMATION,),
    "minikafka.predicates": (PluginKind.PREDICATE,),
    "minikafka.config_providers": (PluginKind.CONFIG_PROVIDER,),
}
"""The groups of entry points, and the kinds that each may hold."""

_METHODS: Final = {
    PluginKind.CONVERTER: ("from_connect", "to_connect"),
    PluginKind.HEADER_CONVERTER: ("from_header", "to_header"),
    PluginKind.TRANSFORMATION: ("apply",),
    PluginKind.PREDICATE: ("test",),
    PluginKind.CONFIG_PROVIDER: (),
}
"""The methods that a class of each kind has; connectors have base classes."""

_SUFFIXES: Final = ("Connector", "Converter")
"""Endings that Kafka lets users leave out of a class's simple name."""


@dataclass(frozen=True, slots=True)
class _Row:
    """A class that can be found by name: its kinds, and how it is loaded."""

    name: str
    kinds: tuple[PluginKind, ...]
    version: str
    load: Callable[[], Any]


class Plugins:
    """The classes that this worker can run.

    `paths` (`plugin.path`) are directories with further Python packages; they are searched after
    the installed ones. Raises nothing: what is broken is an error of `find`.
    """

    def __init__(self, paths: Iterable[str] = ()) -> None:
        sys.path += [path for path in paths if path not in sys.path]
        self._rows: dict[str, list[_Row]] = {}
        for row in (*map(_builtin, BUILTINS), *_installed()):
            self._rows.setdefault(row.name, []).append(row)

    def find(self, class_name: str, kind: PluginKind | str) -> type[Any]:
        """Return the class of that name. Raise PluginError if there is none of this kind."""
        return self._find(class_name.strip(), (PluginKind(kind),))

    def find_connector(self, class_name: str) -> tuple[type[Any], PluginKind]:
        """Return a connector's class, and whether it is a source or a sink."""
        found = self._find(class_name.strip(), CONNECTOR_KINDS)
        return found, PluginKind.SOURCE if issubclass(found, SourceConnector) else PluginKind.SINK

    def find_any(self, name: str) -> tuple[type[Any], PluginKind]:
        """Return the class of any kind that has this name, as `GET .../config` asks (KIP-769)."""
        name = name.strip()
        rows = [row for known in _spellings(name) for row in self._rows.get(known, ())]
        kinds = rows[0].kinds if rows else CONNECTOR_KINDS if ":" in name else tuple(PluginKind)
        found = self._find(name, kinds)
        return found, next(kind for kind in kinds if _is_a(found, kind))

    def listing(self, *, connectors_only: bool) -> list[dict[str, str]]:
        """Return class, type and version of each plugin, sorted by type and class.

        Nothing is imported, but for connectors of entry points: only their class tells the type.
        One that cannot be imported is left out; `find` says why.
        """
        found: list[dict[str, str]] = []
        for rows in self._rows.values():
            for row in rows:
                kind = _listed_kind(row)
                if kind is not None and (kind in CONNECTOR_KINDS or not connectors_only):
                    found.append({"class": row.name, "type": kind.value, "version": row.version})
        return sorted(found, key=lambda one: (one["type"], one["class"]))

    def _find(self, name: str, kinds: tuple[PluginKind, ...]) -> type[Any]:
        what = " or ".join(kind.value.replace("_", " ") for kind in kinds)
        of_another_kind = False
        for known in _spellings(name):
            for row in self._rows.get(known, ()):
                if any(kind in kinds for kind in row.kinds):
                    return _checked(name, what, kinds, row.load)
                of_another_kind = True
        if ":" in name:
            return _checked(name, what, kinds, lambda: _imported(name))
        if of_another_kind:
            raise PluginError(f"{name} is no {what}")
        known_names = [
            row.name
            for rows in self._rows.values()
            for row in rows
            if any(kind in kinds for kind in row.kinds)
        ]
        hint = did_you_mean(name, known_names)
        raise PluginError(
            f"Failed to find any class that implements {what} and which name matches {name}{hint};"
            " give the name of a built-in or of an entry point, or module:Class"
        )


def _builtin(row: Builtin) -> _Row:
    target = f"{__package__}.{row.target}"
    # Whatever converts values converts headers too, in Kafka as here.
    is_both = row.kind is PluginKind.CONVERTER
    kinds = _GROUPS["minikafka.converters"] if is_both else (row.kind,)
    return _Row(row.name, kinds, VERSION, lambda: _imported(target))


def _installed() -> Iterator[_Row]:
    for group, kinds in _GROUPS.items():
        for point in entry_points(group=group):
            yield _Row(point.name, kinds, _version(point), point.load)


def _version(point: EntryPoint) -> str:
    return point.dist.version if point.dist is not None else "undefined"


def _spellings(name: str) -> Iterator[str]:
    """Yield the names under which a plugin may be registered, the exact one first."""
    yield name
    if name in ALIASES:
        yield ALIASES[name]
    if "." not in name and ":" not in name:
        for suffix in _SUFFIXES:
            yield name.removesuffix(suffix)
            yield name + suffix


def _imported(target: str) -> Any:
    module, _, attribute = target.partition(":")
    found: Any = importlib.import_module(module)
    for part in attribute.split("."):
        found = getattr(found, part)
    return found


def _checked(
    name: str, what: str, kinds: tuple[PluginKind, ...], load: Callable[[], Any]
) -> type[Any]:
    """Load a class. Raise PluginError if its module cannot be imported, or it is something else."""
    try:
        found = load()
    except ModuleNotFoundError as error:
        raise PluginError(
            f"{name} cannot be imported: {error}; install the package that has it,"
            " or the extra minikafka[connect]"
        ) from error
    # A module may raise anything, even SystemExit, and must not end the worker.
    except (Exception, SystemExit) as error:
        raise PluginError(f"{name} cannot be imported: {type(error).__name__}: {error}") from error
    if not any(_is_a(found, kind) for kind in kinds):
        raise PluginError(f"{name} is no {what}: it is {found!r}")
    return found  # type: ignore[no-any-return]


def _is_a(found: Any, kind: PluginKind) -> bool:
    if not isinstance(found, type):
        return False
    if kind in CONNECTOR_KINDS:
        return issubclass(found, SourceConnector if kind is PluginKind.SOURCE else SinkConnector)
    return all(callable(getattr(found, method, None)) for method in _METHODS[kind])


def _listed_kind(row: _Row) -> PluginKind | None:
    if len(row.kinds) == 1:
        return row.kinds[0]
    try:
        found = row.load()
    except (Exception, SystemExit):
        return None
    return next((kind for kind in row.kinds if _is_a(found, kind)), None)
