"""The OpenAPI document of the proxy, made of the table of its operations."""

import re
from typing import Any, Final

from ...runtime.version import VERSION
from . import media, v3_kinds
from .routes import OPERATIONS, Operation
from .schemas import ANSWERS, BODIES, NAME, QUERY, WHOLE

_PARAMETER: Final = re.compile(r"\{(\w+)(:int)?\}")
_KINDS: Final = {
    "Stream": [media.NDJSON, media.EVENTS],
    "Written": [media.PLAIN, media.NDJSON],
    "Record": [media.PLAIN, media.NDJSON],
    "Records": [media.of_format(name) for name in media.FORMATS],
    "Read": [*(media.of_format(name) for name in media.FORMATS), media.V2],
}
"""By schema, its media types where they are not those of its version."""


def document() -> dict[str, Any]:
    """Return the OpenAPI document."""
    paths: dict[str, Any] = {}
    for one in OPERATIONS:
        path = _PARAMETER.sub(r"{\1}", one.path)
        paths.setdefault(path, {})[one.method.lower()] = _operation(one)
    return {
        "openapi": "3.1.0",
        "info": {"title": "minikafka REST proxy", "version": VERSION},
        "paths": paths,
        "components": {
            "schemas": {**BODIES, **ANSWERS, **v3_kinds.schemas()},
            "securitySchemes": {
                name: {"type": "http", "scheme": name} for name in ("basic", "bearer")
            },
        },
        "security": [{}, {"basic": []}, {"bearer": []}],
    }


def _operation(one: Operation) -> dict[str, Any]:
    usual = media.PLAIN if one.path.startswith("/v3") else media.V2
    found: dict[str, Any] = {
        "summary": (one.handler.__doc__ or "").partition("\n")[0],
        "parameters": [
            *(
                {"name": name, "in": "path", "required": True, "schema": WHOLE if kind else NAME}
                for name, kind in _PARAMETER.findall(one.path)
            ),
            *({"name": name, "in": "query", "schema": QUERY[name]} for name in one.query),
        ],
        "responses": {
            str(one.status): {"description": "The answer.", **_content(one.answer, usual)},
            "default": {"description": "An error.", **_content("Error", usual)},
        },
    }
    schema = one.body.rstrip("?")
    if schema:
        found["requestBody"] = {"required": schema == one.body, **_content(schema, usual)}
    return found


def _content(schema: str, usual: str) -> dict[str, Any]:
    if not schema:
        return {}
    one = {"schema": {"$ref": f"#/components/schemas/{schema}"}}
    return {"content": dict.fromkeys(_KINDS.get(schema, [usual]), one)}
