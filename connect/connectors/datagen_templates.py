"""The tables of made-up data: each field of a template is a function of dice, number and time."""

from collections.abc import Callable, Mapping
from random import Random
from typing import Any, Final, NamedTuple

from ..data import BOOLEAN, FLOAT64, INT32, INT64, STRING, Schema, struct

Maker = Callable[[Random, int, int], Any]
"""Takes the dice of one record, its number from 0 on, and its time in ms since the epoch."""


class Template(NamedTuple):
    """Records of one kind."""

    key: str
    """The field whose value, as text, is the record's key."""
    fields: Mapping[str, tuple[Schema, Maker]]

    @property
    def schema(self) -> Schema:
        """The schema of the values."""
        return struct({name: schema for name, (schema, _) in self.fields.items()})

    def value(self, dice: Random, number: int, time_ms: int) -> dict[str, Any]:
        """Return the record of this number."""
        return {name: make(dice, number, time_ms) for name, (_, make) in self.fields.items()}


def _number(dice: Random, number: int, time_ms: int) -> int:
    return number


def _time(dice: Random, number: int, time_ms: int) -> int:
    return time_ms


def _id(prefix: str, most: int) -> Maker:
    return lambda dice, number, time_ms: f"{prefix}{dice.randrange(most)}"


def _one_of(*choices: str) -> Maker:
    return lambda dice, number, time_ms: dice.choice(choices)


def _whole(least: int, most: int) -> Maker:
    return lambda dice, number, time_ms: dice.randint(least, most)


def _price(mean: float, spread: float) -> Maker:
    return lambda dice, number, time_ms: round(abs(dice.gauss(mean, spread)) + 0.01, 2)


_COUNTRY = (STRING, _one_of("BR", "DE", "FR", "IN", "JP", "NG", "PL", "US"))
_NAMES = ("Ada", "Alan", "Barbara", "Edsger", "Grace", "Jim", "Leslie", "Nancy", "Radia", "Tony")

TEMPLATES: Final[dict[str, Template]] = {
    "orders": Template(
        "customer_id",
        {
            "order_id": (INT64, _number),
            "ordered_at": (INT64, _time),
            "customer_id": (STRING, _id("customer-", 1000)),
            "item": (STRING, _one_of("book", "chair", "lamp", "pen", "phone", "tea")),
            "quantity": (INT32, _whole(1, 9)),
            "price": (FLOAT64, _price(40, 25)),
            "country": _COUNTRY,
        },
    ),
    "users": Template(
        "user_id",
        {
            "user_id": (STRING, _id("user-", 1000)),
            "registered_at": (INT64, _time),
            "name": (STRING, _one_of(*_NAMES)),
            "country": _COUNTRY,
            "is_premium": (BOOLEAN, lambda dice, number, time_ms: dice.random() < 0.1),
        },
    ),
    "clickstream": Template(
        "session_id",
        {
            "session_id": (STRING, _id("session-", 500)),
            "user_id": (STRING, _id("user-", 1000)),
            "clicked_at": (INT64, _time),
            "page": (STRING, _one_of("/", "/search", "/item", "/cart", "/pay", "/help")),
            "status": (INT32, lambda dice, number, time_ms: 500 if dice.random() < 0.01 else 200),
            "duration_ms": (INT32, _whole(1, 3000)),
        },
    ),
    "trades": Template(
        "symbol",
        {
            "trade_id": (INT64, _number),
            "traded_at": (INT64, _time),
            "symbol": (STRING, _one_of("AAA", "BBB", "CCC", "DDD", "EEE")),
            "side": (STRING, _one_of("BUY", "SELL")),
            "quantity": (INT32, _whole(1, 5000)),
            "price": (FLOAT64, _price(100, 15)),
        },
    ),
    "sensors": Template(
        "sensor_id",
        {
            "sensor_id": (STRING, _id("sensor-", 100)),
            "measured_at": (INT64, _time),
            "temperature": (FLOAT64, lambda dice, number, time_ms: round(dice.gauss(21, 4), 1)),
            "humidity": (INT32, _whole(20, 90)),
        },
    ),
}
