"""Realistic records, made up: tweets, orders, sensors, clicks, card payments.

A record depends on the seed, its number, the start and the rate, and on nothing else: no clock, no state. So the
same stream can be made again from any point, here or on another machine.

>>> make("orders").record(7, 41)["at"] == make("orders").record(7, 41)["at"]
True
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from headrace.connectors import generator_words as words
from headrace.connectors.draws import Draws, Skewed, mix
from headrace.model import Schema

START = datetime(2026, 1, 1, tzinfo=UTC)
RATE = 10.0
Record = dict[str, Any]
_TAGS, _USERS, _PRODUCTS, _PAGES = Skewed(len(words.TAGS), 1.1), Skewed(5000, 0.9), Skewed(200, 1.0), Skewed(40, 1.0)
_LATE_SHARE, _LATE_MEAN_SECONDS = 0.05, 4.0
_DRIFT_SECONDS = 60.0


@dataclass(frozen=True, kw_only=True)
class Generator:
    """One kind of made-up records."""

    name: str
    description: str
    schema: Schema
    key: str
    """The column to partition by."""
    make: Callable[[Draws, int, int, float], Record]
    """From draws, seed, number and seconds since the start; the event time is added behind."""

    def record(self, seed: int, index: int, start: datetime = START, rate: float = RATE) -> Record:
        """Record number `index`. Event times advance by 1/rate seconds; one in twenty comes late, by seconds."""
        draws = Draws(seed, index)
        seconds = index / rate
        record = self.make(draws, seed, index, seconds)
        late = draws.exponential(_LATE_MEAN_SECONDS) if draws.chance(_LATE_SHARE) else 0.0
        # Whole milliseconds: what JSON, databases and eyes can all read.
        record["at"] = start + timedelta(milliseconds=round(max(0.0, seconds - late) * 1000))
        return record


def make(name: str) -> Generator:
    """The generator of that name; raises KeyError."""
    return GENERATORS[name]


def dumps(record: Mapping[str, Any]) -> str:
    """A record as one line of JSON, as the `json` format reads it back."""
    return json.dumps(record, default=_plain, ensure_ascii=False, separators=(",", ":"))


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, Decimal):
        return float(value)  # at most 12 digits, so the shortest text is the exact one
    raise TypeError(f"{type(value).__name__} is not in any generator's schema")


def _cents(amount: float) -> Decimal:
    return Decimal(round(amount * 100)).scaleb(-2)


def _drifted(rank: int, size: int, seed: int, seconds: float, draws: Draws) -> int:
    """Which thing has this rank now: the order changes from minute to minute, and slowly within one."""
    minute, part = divmod(seconds / _DRIFT_SECONDS, 1.0)
    slot = int(minute) + (1 if draws.chance(part) else 0)
    # The head of the order moves on by a few places in each slot; the tail hardly notices.
    return (rank + mix(seed ^ 0x7A65) % size + slot * 3) % size


def _tweet(draws: Draws, seed: int, index: int, seconds: float) -> Record:
    tags: list[str] = []
    for _ in range(1 + (1 if draws.chance(0.35) else 0) + (1 if draws.chance(0.1) else 0)):
        tag = words.TAGS[_drifted(_TAGS.rank(draws), len(words.TAGS), seed, seconds, draws)]
        if tag not in tags:
            tags.append(tag)
    breaking = words.TAGS[mix(seed + int(seconds // 90)) % len(words.TAGS)]
    if draws.chance(0.25 * math.sin(math.pi * (seconds % 90) / 90)) and breaking not in tags:
        tags.append(breaking)
    text = " ".join(draws.pick(words.WORDS) for _ in range(4 + draws.below(9)))
    return {
        "id": 1_000_000 + index,
        "user": f"user{_USERS.rank(draws)}",
        "text": f"{text} {' '.join('#' + tag for tag in tags)}",
        "hashtags": tags,
        "lang": words.LANGUAGES[min(draws.below(16), len(words.LANGUAGES) - 1) if draws.chance(0.5) else 0],
        "followers": int(10 ** (1 + 3 * draws.unit() ** 2)),
    }


def _order(draws: Draws, seed: int, index: int, seconds: float) -> Record:
    product = _PRODUCTS.rank(draws)
    price = _cents(3 + mix(product) % 200 + (mix(product) % 100) / 100)  # a product's price does not change
    quantity = 1 + int(draws.exponential(0.6))
    return {
        "id": index + 1,
        "customer": f"c{_USERS.rank(draws):05d}",
        "product": f"p{product:03d}",
        "category": words.CATEGORIES[product % len(words.CATEGORIES)],
        "quantity": quantity,
        "price": price,
        "amount": price * quantity,
        "country": draws.pick(words.COUNTRIES[:4] if draws.chance(0.7) else words.COUNTRIES),
    }


def _sensor(draws: Draws, seed: int, index: int, seconds: float) -> Record:
    number = index % 50  # each sensor reports in turn
    own = Draws(seed, 0x5E05, number)
    day = 2 * math.pi * (seconds / 86_400 - 0.375)
    temperature = own.normal(18, 3) + 6 * math.sin(day) + draws.normal(0, 0.3)
    if draws.chance(0.002):
        temperature += draws.pick((-25.0, 30.0, 60.0))  # a fault, for anomaly detectors to find
    return {
        "sensor": f"s{number:02d}",
        "site": words.SITES[number % len(words.SITES)],
        "temperature": round(temperature, 2),
        "humidity": round(min(100.0, max(0.0, 70 - 1.5 * (temperature - 15) + draws.normal(0, 2))), 1),
        "battery": round(max(0.0, 100 - seconds / 86_400 * own.normal(2, 0.3)), 1),
    }


def _click(draws: Draws, seed: int, index: int, seconds: float) -> Record:
    # About forty sessions are alive at a time; each hands its place on after a few minutes.
    place = draws.below(40)
    session = mix(seed ^ (place << 32) ^ int((seconds + place * 7) // 240))
    user = _USERS.rank(Draws(session))
    page = _PAGES.rank(draws)
    action = "view" if draws.chance(0.82) else "click" if draws.chance(0.7) else "cart" if draws.chance(0.8) else "buy"
    return {
        "session": f"{session:016x}",
        "user": f"user{user}" if user % 3 else None,  # a third is not signed in
        "page": f"/{words.CATEGORIES[page % len(words.CATEGORIES)]}/{page}" if page else "/",
        "action": action,
        "referrer": draws.pick(words.REFERRERS),
        "milliseconds": int(draws.exponential(400)) + 20,
    }


def _payment(draws: Draws, seed: int, index: int, seconds: float) -> Record:
    block, position = divmod(index, 500)
    theft = Draws(seed, 0xF4A0D, block)
    stolen = theft.chance(0.4)
    first, card, step = theft.below(400), theft.below(3000), 1 + theft.below(12)
    turn, rest = divmod(position - first, step)
    # A stolen card is tried with three small sums, then used for two large ones: a pattern to be found.
    fraud = stolen and rest == 0 and 0 <= turn < 5
    number = card if fraud else _USERS.rank(draws) % 3000
    amount = (1 + draws.unit() * 2 if turn < 3 else 400 + draws.unit() * 900) if fraud else 4 + draws.exponential(38)
    home = words.COUNTRIES[number % 5]
    return {
        "id": index + 1,
        "card": f"4000-{number:04d}-{mix(number) % 10_000:04d}",
        "merchant": f"m{_PRODUCTS.rank(draws):03d}",
        "category": draws.pick(words.CATEGORIES),
        "amount": _cents(amount),
        "currency": "EUR",
        "country": draws.pick(words.COUNTRIES) if fraud or draws.chance(0.03) else home,
        "online": fraud or draws.chance(0.4),
        "fraud": fraud,
    }


def _generator(name: str, key: str, columns: str, maker: Callable[..., Record], description: str) -> Generator:
    schema = Schema.parse(f"{columns}, at TIMESTAMP").timed("at")
    return Generator(name=name, description=description, schema=schema, key=key, make=maker)


GENERATORS: Mapping[str, Generator] = {
    g.name: g
    for g in (
        _generator(
            "card_payments",
            "card",
            "id BIGINT, card STRING, merchant STRING, category STRING, amount DECIMAL(10,2), currency STRING, "
            "country STRING, online BOOLEAN, fraud BOOLEAN",
            _payment,
            "Card payments; now and then a stolen card is tried with small sums, then used for large ones.",
        ),
        _generator(
            "clicks",
            "session",
            "session STRING, user STRING, page STRING, action STRING, referrer STRING, milliseconds INT",
            _click,
            "Visits to a shop's pages, in sessions; a third of the visitors is not signed in.",
        ),
        _generator(
            "orders",
            "customer",
            "id BIGINT, customer STRING, product STRING, category STRING, quantity INT, price DECIMAL(10,2), "
            "amount DECIMAL(12,2), country STRING",
            _order,
            "Orders of a shop; few products make most of them.",
        ),
        _generator(
            "sensors",
            "sensor",
            "sensor STRING, site STRING, temperature DOUBLE, humidity DOUBLE, battery DOUBLE",
            _sensor,
            "Fifty sensors with the course of the day, noise and rare faults.",
        ),
        _generator(
            "tweets",
            "user",
            "id BIGINT, user STRING, text STRING, hashtags ARRAY<STRING>, lang STRING, followers INT",
            _tweet,
            "Short posts with hashtags whose popularity drifts, and a breaking one every minute and a half.",
        ),
    )
}
