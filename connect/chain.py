"""The plugins of a connector as its configuration names them: converters and transformations.

Keys are `key.converter`, `value.converter`, `header.converter`, each with its settings behind a
dot, `transforms=a,b` with `transforms.a.type`, `.predicate` and `.negate`, and `predicates=p`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from .config_def import BadConfig, ConfigDef, ConfigKey, ConfigType
from .data import DataError
from .records import ConnectRecord, SinkRecord, SourceRecord
from .transforms.transformation import Predicate, Transformation

Props = Mapping[str, str]
Find = Callable[[str, str], type[Any]]
"""Returns the class of that name and kind; a kind is the value of a PluginKind."""
R = TypeVar("R", bound=ConnectRecord)

SIMPLE_HEADERS = "org.apache.kafka.connect.storage.SimpleHeaderConverter"

STEP_KEYS = ConfigDef(
    [
        ConfigKey("type", ConfigType.CLASS, "The class of the transformation."),
        ConfigKey("predicate", ConfigType.STRING, "Apply it to records of this predicate.", ""),
        ConfigKey("negate", ConfigType.BOOLEAN, "Apply it to the other records.", False),
    ]
)
"""The keys of each transformation beside those of its class."""


def behind(props: Props, prefix: str) -> dict[str, str]:
    """Return the settings behind `prefix`, without it."""
    return {key[len(prefix) :]: value for key, value in props.items() if key.startswith(prefix)}


def names(props: Props, key: str) -> list[str]:
    """Return the names of a list, as of `transforms`. Raise BadConfig if one is there twice."""
    found = [each.strip() for each in props.get(key, "").split(",") if each.strip()]
    if len(dict.fromkeys(found)) != len(found):
        raise BadConfig(
            f"Invalid value {props[key]} for configuration {key}: a name is twice in it"
        )
    return found


def configured(kind: str, prefix: str, props: Props, find: Find) -> tuple[Any, dict[str, str]]:
    """Return an instance of the class in `<prefix>type`, and the settings that it is to take."""
    settings = behind(props, prefix)
    if not settings.get("type", "").strip():
        raise BadConfig(
            f'Missing required configuration "{prefix}type" which has no default value.'
        )
    return find(settings["type"], kind)(), settings


def taken(prefix: str, configure: Callable[[Props], None], settings: Props) -> None:
    """Let a plugin take its settings; a refusal names the place of the plugin."""
    try:
        configure(settings)
    except BadConfig as error:
        raise BadConfig(f"{prefix.removesuffix('.')}: {error}") from error


def make_converter(key: str, props: Props, worker_props: Props, find: Find) -> Any:
    """Return the converter `key`: the connector's with its settings, else the worker's."""
    source = props if props.get(key, "").strip() else worker_props
    default = SIMPLE_HEADERS if key == "header.converter" else ""
    name = source.get(key, "").strip() or default
    if not name:
        raise BadConfig(f'Missing required configuration "{key}" which has no default value.')
    kind = "header_converter" if key == "header.converter" else "converter"
    converter = find(name, kind)()
    taken(
        key,
        lambda settings: converter.configure(settings, key == "key.converter"),
        behind(source, f"{key}."),
    )
    return converter


class Step(NamedTuple):
    """One transformation, and the records that it is for."""

    transformation: Transformation
    predicate: Predicate | None
    negate: bool


def make_steps(props: Props, find: Find) -> list[Step]:
    """Return the transformations in order. Raise BadConfig, or what `find` raises."""
    predicates: dict[str, Predicate] = {}
    for name in names(props, "predicates"):
        prefix = f"predicates.{name}."
        predicate, settings = configured("predicate", prefix, props, find)
        taken(prefix, predicate.configure, settings)
        predicates[name] = predicate
    return [
        _step(f"transforms.{name}.", props, predicates, find) for name in names(props, "transforms")
    ]


def _step(prefix: str, props: Props, predicates: Mapping[str, Predicate], find: Find) -> Step:
    transformation, settings = configured("transformation", prefix, props, find)
    own = STEP_KEYS.parse(settings)
    chosen = own["predicate"]
    if chosen and chosen not in predicates:
        raise BadConfig(
            f"Invalid value {chosen} for configuration {prefix}predicate: it is not in predicates"
        )
    if own["negate"] and not chosen:
        raise BadConfig(f"{prefix}negate needs {prefix}predicate")
    others = {key: value for key, value in settings.items() if key not in STEP_KEYS.keys}
    taken(prefix, transformation.configure, others)
    return Step(transformation, predicates.get(chosen), own["negate"])


class StepFailed(Exception):
    """A transformation or its predicate has raised `error`; `plugin` is its class."""

    def __init__(self, plugin: type[Any], error: Exception) -> None:
        super().__init__(str(error))
        self.plugin = plugin
        self.error = error


def passed(record: R, steps: Sequence[Step]) -> list[R]:
    """Return what the steps make of a record: nothing, it, or several. Raise StepFailed."""
    for at, step in enumerate(steps):
        try:
            if step.predicate is not None and step.predicate.test(record) == step.negate:
                continue
            made = step.transformation.apply(record)
            _check(made, SinkRecord if isinstance(record, SinkRecord) else SourceRecord)
        except Exception as error:  # any class of a user
            raise StepFailed(type(step.transformation), error) from error
        if made is None:
            return []
        if isinstance(made, list):
            return [found for each in made for found in passed(each, steps[at + 1 :])]
        record = made
    return [record]


def _check(made: Any, kind: type[ConnectRecord]) -> None:
    for each in made if isinstance(made, list) else [made]:
        if made is not None and not isinstance(each, kind):
            raise DataError(
                f"a transformation must return a {kind.__name__}, None or a list of them, not"
                f" {type(each).__name__}"
            )
