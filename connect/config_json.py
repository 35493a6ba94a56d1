"""The JSON of configuration keys and values in REST, and what follows from the errors in it.

The names are those of ConfigInfos and ConfigKeyInfo of Kafka's Connect. A password is never shown.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from .config_def import HIDDEN, NO_DEFAULT, ConfigKey, ConfigType, ConfigValue, to_text
from .herding import Json

NULL: Final = "Null value can not be supplied as the configuration value."


def definition(key: ConfigKey) -> Json:
    """Return one key as forms need it."""
    has_default = key.default is not NO_DEFAULT and key.default is not None
    shown = to_text(key.default) if has_default else None
    return {
        "name": key.name,
        "type": key.type.value,
        "required": key.required,
        "default_value": HIDDEN if shown and key.type is ConfigType.PASSWORD else shown,
        "importance": key.importance.value,
        "documentation": key.doc,
        "group": key.group,
        "width": key.width.value,
        "display_name": key.display_name or key.name,
        "dependents": list(key.dependents),
        "order": key.order,
    }


def value_json(
    value: ConfigValue, key: ConfigKey | None, hidden: Mapping[str, str], raw: str | None = None
) -> Json:
    """Return what is known of one value. `hidden` has by secret text what is shown in its place.

    `raw` is shown in place of the value where a reference stood for it.
    """
    is_secret = key is not None and key.type is ConfigType.PASSWORD
    errors = list(value.errors)
    for secret, reference in hidden.items():
        errors = [error.replace(secret, reference) for error in errors]
    shown = value.value if raw is None else raw
    return {
        "name": value.name,
        "value": HIDDEN if is_secret and shown is not None else shown,
        "recommended_values": list(value.recommended_values),
        "errors": errors,
        "visible": value.visible,
    }


def errors_of(answer: Json) -> str | None:
    """Return all errors of a validate answer as the message of a refusal; None without errors."""
    count = answer["error_count"]
    if not count:
        return None
    errors = [error for each in answer["configs"] for error in each["value"]["errors"]]
    return "\n".join(
        [
            f"Connector configuration is invalid and contains the following {count} error(s):",
            *errors,
            "You can also find the above list of errors at the endpoint "
            "`/connector-plugins/{connectorType}/config/validate`",
        ]
    )


def with_nulls(answer: Json, nulls: Sequence[str]) -> Json:
    """Return a validate answer with an error for each of the keys that were given as null."""
    for name in nulls:
        known = (each["value"] for each in answer["configs"] if each["value"]["name"] == name)
        value = next(known, None)
        if value is None:
            value = value_json(ConfigValue(name), None, {})
            answer["configs"].append({"definition": None, "value": value})
        value["errors"].append(NULL)
    return {**answer, "error_count": answer["error_count"] + len(nulls)}
