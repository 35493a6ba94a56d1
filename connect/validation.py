"""The answer to `PUT /connector-plugins/{plugin}/config/validate`, of which interfaces make forms.

It joins the keys that every connector has, the connector's own, and those of its transformations,
predicates and converters. A plugin that fails is an error of the key that names it. It starts
nothing, and never shows a password or what a config provider put in place of a reference.

Parameters are those of AbstractHerder.validateConnectorConfig (KIP-26, 66, 585, 769).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from .api import Connector, SinkConnector, SourceConnector
from .clients import check_overrides
from .common_config import SINK_CONFIG, SOURCE_CONFIG, check_sink
from .config_def import BadConfig, ConfigDef, ConfigKey, ConfigType, ConfigValue, Importance
from .config_json import definition, value_json
from .herding import BadRequest, Json, NotFound
from .plugins import PluginError, PluginKind, Plugins


class Rules(NamedTuple):
    """The worker's part in a validation."""

    resolve: Callable[[Mapping[str, str]], Mapping[str, str]]
    """Puts values in place of references such as ${env:PASSWORD}."""
    override_policy: str = "All"
    """`connector.client.config.override.policy`."""


CONVERTERS: Final = {
    "key.converter": PluginKind.CONVERTER,
    "value.converter": PluginKind.CONVERTER,
    "header.converter": PluginKind.HEADER_CONVERTER,
}
_COMMON: Final = {PluginKind.SOURCE: SOURCE_CONFIG, PluginKind.SINK: SINK_CONFIG}
MOST_NAMES: Final = 100
"""The most transformations or predicates of one connector that are looked at."""


@dataclass(slots=True)
class _Found:
    """The keys and the values that are known so far, in the order of the answer."""

    keys: dict[str, ConfigKey] = field(default_factory=dict)
    values: dict[str, ConfigValue] = field(default_factory=dict)

    def add(self, keys: Mapping[str, ConfigKey], values: Sequence[ConfigValue]) -> None:
        """Add keys and values; later ones replace earlier ones of the same name."""
        self.keys.update(keys)
        self.values.update({value.name: value for value in values})

    def blame(self, key: str, why: str) -> None:
        """Add an error to a key."""
        self.values.setdefault(key, ConfigValue(key)).errors.append(why)


def connector_of(config: Mapping[str, str], plugins: Plugins) -> tuple[type[Connector], PluginKind]:
    """Return the class of a connector, and its kind.

    Raise BadRequest if the configuration names none that is installed, PluginError if it is broken.
    """
    name = config.get("connector.class")
    if not name:
        raise BadRequest("The configuration contains no connector type: set connector.class")
    try:
        return plugins.find_connector(name)
    except PluginError as error:
        if error.__cause__ is None:
            raise BadRequest(str(error)) from error
        raise


def kind_of(config: Mapping[str, str], plugins: Plugins) -> str:
    """Return the `type` of a connector in REST: source, sink or unknown."""
    try:
        return plugins.find_connector(config.get("connector.class", ""))[1].value
    except PluginError:
        return "unknown"


def validate(config: Mapping[str, str], plugins: Plugins, rules: Rules) -> Json:
    """Return {name, error_count, groups, configs: [{definition, value}]}.

    Raise BadRequest if the configuration names no connector that is installed. This may block, as
    a connector may ask its system.
    """
    found = _Found()
    wrong: str | None = None
    try:
        props = dict(rules.resolve(config))
    except Exception as error:
        # The message of a provider names its reference, never what it stands for.
        props, wrong = dict(config), _failure("A reference cannot be resolved", error)
    try:
        cls, kind = connector_of(props, plugins)
    except PluginError as error:
        found.add(SOURCE_CONFIG.keys, SOURCE_CONFIG.validate(props))
        found.blame("connector.class", str(error))
        return _answer(config, props, found)
    common = SINK_CONFIG if kind is PluginKind.SINK else SOURCE_CONFIG
    found.add(common.keys, common.validate(props))
    if wrong is not None:
        found.blame("connector.class", wrong)
    _add_chain(found, props, plugins, "transforms", PluginKind.TRANSFORMATION)
    _add_chain(found, props, plugins, "predicates", PluginKind.PREDICATE)
    _add_connector(found, props, cls)
    try:
        check_overrides(props, rules.override_policy)
    except BadConfig as error:
        found.blame("connector.class", str(error))
    for key, converter in CONVERTERS.items():
        if key in props:
            _add_plugin(found, props, plugins, converter, (key, f"{key}.", None))
    return _answer(config, props, found)


def describe(plugin: str, plugins: Plugins) -> list[Json]:
    """Return the keys of a plugin's configuration, its own first (KIP-769).

    Raise NotFound if there is no such plugin.
    """
    try:
        cls, kind = plugins.find_any(plugin)
    except PluginError as error:
        raise NotFound(f"Unknown plugin {plugin}: {error}") from error
    own: ConfigDef = getattr(cls, "config", ConfigDef())
    common = _COMMON.get(kind, ConfigDef())
    rows = own + ConfigDef(key for key in common.keys.values() if key.name not in own.keys)
    return [definition(key) for key in rows.keys.values()]


# ----------------------------------------------------------------------------------------- parts


def _add_connector(found: _Found, props: Mapping[str, str], cls: type[Connector]) -> None:
    """Add what the connector itself says of its keys, and the rules across keys."""
    try:
        connector = cls()
        found.add(cls.config.keys, connector.validate(props))
        if isinstance(connector, SourceConnector):
            _check_source(found, props, connector)
    except Exception as error:
        found.blame("connector.class", _failure(f"{cls.__name__} cannot validate", error))
    if issubclass(cls, SinkConnector):
        _check_sink(found, props)


def _check_source(found: _Found, props: Mapping[str, str], connector: SourceConnector) -> None:
    wanted = props.get("exactly.once.support", "requested").lower()
    if wanted == "required" and not connector.exactly_once_support(props):
        found.blame(
            "exactly.once.support",
            "The connector does not support exactly-once semantics with the provided "
            "configuration.",
        )
    is_own = props.get("transaction.boundary", "poll").lower() == "connector"
    if is_own and not connector.can_define_transaction_boundaries(props):
        found.blame(
            "transaction.boundary",
            "The connector does not support connector-defined transaction boundaries with the "
            "given configuration.",
        )


def _check_sink(found: _Found, props: Mapping[str, str]) -> None:
    try:
        check_sink(props)
    except BadConfig as error:
        given = [bool(props.get(key, "").strip()) for key in ("topics", "topics.regex")]
        for key in ("topics", "topics.regex") if given[0] == given[1] else ("topics",):
            found.blame(key, str(error))


def _add_chain(
    found: _Found, props: Mapping[str, str], plugins: Plugins, chain: str, kind: PluginKind
) -> None:
    """Add the keys of each transformation or predicate that the connector names (KIP-66, 585)."""
    names = [each.strip() for each in props.get(chain, "").split(",") if each.strip()]
    for name in list(dict.fromkeys(names))[:MOST_NAMES]:
        group = f"{chain.capitalize()}: {name}"
        prefix = f"{chain}.{name}."
        rows = [
            ConfigKey(
                f"{prefix}type",
                ConfigType.CLASS,
                f"Class for the '{name}' {kind.value}.",
                importance=Importance.HIGH,
            )
        ]
        if kind is PluginKind.TRANSFORMATION:
            doc = "The alias of a predicate that decides whether the transformation applies."
            rows.append(ConfigKey(f"{prefix}predicate", ConfigType.STRING, doc, None))
            doc = "Whether the configured predicate should be negated."
            rows.append(ConfigKey(f"{prefix}negate", ConfigType.BOOLEAN, doc, False))
        table = ConfigDef(replace(row, group=group) for row in rows)
        found.add(table.keys, table.validate(props))
        if f"{prefix}type" in props:
            _add_plugin(found, props, plugins, kind, (f"{prefix}type", prefix, group))


def _add_plugin(
    found: _Found,
    props: Mapping[str, str],
    plugins: Plugins,
    kind: PluginKind,
    where: tuple[str, str, str | None],
) -> None:
    """Add a plugin's keys. `where`: the key that names it, the prefix and the group of its own."""
    key, prefix, group = where
    try:
        table: ConfigDef = getattr(plugins.find(props[key], kind), "config", ConfigDef())
        rows = ConfigDef(
            replace(row, name=prefix + row.name, group=group or row.group)
            for row in table.keys.values()
        )
        # Errors thus name the keys as they stand in the connector's configuration.
        found.add(rows.keys, rows.validate(props))
    except PluginError as error:
        found.blame(key, str(error))
    except Exception as error:
        found.blame(key, _failure(f"{props[key]} cannot validate", error))


def _failure(what: str, error: Exception) -> str:
    return f"{what}: {type(error).__name__}: {error}"


# ---------------------------------------------------------------------------------------- answer


def _answer(config: Mapping[str, str], props: Mapping[str, str], found: _Found) -> Json:
    hidden = _secrets(config, props)
    raw = {key: config[key] for key in config if config[key] != props.get(key)}
    configs: list[Json] = [
        {
            "definition": definition(key),
            "value": value_json(
                found.values.get(name, ConfigValue(name)), key, hidden, raw.get(name)
            ),
        }
        for name, key in found.keys.items()
    ]
    configs += [
        {"definition": None, "value": value_json(value, None, hidden, raw.get(name))}
        for name, value in found.values.items()
        if name not in found.keys
    ]
    groups = dict.fromkeys(key.group for key in found.keys.values() if key.group)
    return {
        "name": config["connector.class"],
        "error_count": sum(len(each["value"]["errors"]) for each in configs),
        "groups": list(groups),
        "configs": configs,
    }


def _secrets(config: Mapping[str, str], props: Mapping[str, str]) -> dict[str, str]:
    """Return by resolved value the reference that stands for it."""
    changed = [key for key in config if props.get(key) not in (config[key], None, "")]
    return {props[key]: config[key] for key in changed}
