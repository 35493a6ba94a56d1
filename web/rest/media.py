"""Media types: the format of records that a request has or wants, and what an answer may be.

Pure. Avro, JSON Schema and Protobuf need a schema registry, and are refused by name.
"""

from collections.abc import Sequence
from typing import Final

from .errors import MEDIA_TYPE, NOT_ACCEPTABLE, RestError

BINARY, JSON, STRING = "binary", "json", "string"
FORMATS: Final = (BINARY, JSON, STRING)
LATER: Final = ("avro", "jsonschema", "protobuf")
V2: Final = "application/vnd.kafka.v2+json"
PLAIN: Final = "application/json"
NDJSON: Final = "application/x-ndjson"
EVENTS: Final = "text/event-stream"
V2_OFFERS: Final = (V2, PLAIN, "application/vnd.kafka+json")
NO_REGISTRY: Final = "needs a schema registry, which this proxy does not have: use binary or json"


def of_format(name: str) -> str:
    """Return the v2 media type of records in this format."""
    return f"application/vnd.kafka.{name}.v2+json"


V2_BODIES: Final = (*V2_OFFERS, *(of_format(name) for name in (*FORMATS, *LATER)))
"""The media types of a v2 request that holds no records."""


def essence(media_type: str | None) -> str:
    """Return a media type without its parameters, in lower case; empty if there is none."""
    return (media_type or "").partition(";")[0].strip().lower()


def body_format(content_type: str | None) -> str:
    """Return the format of the records in a v2 request; raise RestError (415) for another type."""
    given = essence(content_type)
    for name in FORMATS:
        if given == of_format(name):
            return name
    for name in LATER:
        if given == of_format(name):
            raise RestError(MEDIA_TYPE, f"Content-Type: {name} {NO_REGISTRY}")
    raise _other_than(given, [of_format(name) for name in FORMATS])


def check_body(content_type: str | None, allowed: Sequence[str]) -> None:
    """Raise RestError (415) if a body's type is none of these."""
    given = essence(content_type)
    if given not in allowed:
        raise _other_than(given, allowed)


def _other_than(given: str, allowed: Sequence[str]) -> RestError:
    shown = repr(given[:100]) if given else "nothing"
    return RestError(MEDIA_TYPE, f"Content-Type must be {' or '.join(allowed)}, not {shown}")


def chosen(accept: str | None, offers: Sequence[str]) -> str:
    """Return the offer that an Accept header likes best, the first one of equals.

    Raise RestError (406) if it takes none of them.
    """
    if not accept or not accept.strip():
        return offers[0]
    wanted = [_range(part) for part in accept.split(",")]
    best = max(offers, key=lambda offer: _liked(offer, wanted))
    if _liked(best, wanted) > 0:
        return best
    why = f"Accept: {accept[:100]!r} has none of {', '.join(offers)}"
    for name in LATER:
        if any(kind == of_format(name) for kind, _ in wanted):
            why = f"Accept: {name} {NO_REGISTRY}"
    raise RestError(NOT_ACCEPTABLE, why)


def _range(part: str) -> tuple[str, float]:
    kind, *parameters = part.split(";")
    for one in parameters:
        name, _, value = one.partition("=")
        if name.strip().lower() == "q":
            try:
                return kind.strip().lower(), float(value)
            except ValueError:
                return kind.strip().lower(), 0.0
    return kind.strip().lower(), 1.0


def _liked(offer: str, wanted: Sequence[tuple[str, float]]) -> float:
    """Return the quality of the most specific range that covers the offer; 0 if none does."""
    by_kind = dict(reversed(wanted))
    family = offer.partition("/")[0] + "/*"
    return next((by_kind[kind] for kind in (offer, family, "*/*") if kind in by_kind), 0.0)
