from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.connectors.draws import Draws, Skewed
from headrace.connectors.generators import GENERATORS, START, dumps, make

KINDS = sorted(GENERATORS)
PINNED_ORDER = (
    '{"id":1,"customer":"c02744","product":"p168","category":"books","quantity":1,"price":16.13,"amount":16.13,'
    '"country":"FR","at":"2026-01-01T00:00:00Z"}'
)
PINNED_TWEET = (
    '{"id":1000003,"user":"user3756","text":"fast believe than wait everyone really can #garden",'
    '"hashtags":["garden"],"lang":"en","followers":4254,"at":"2026-01-01T00:00:00Z"}'
)


@pytest.mark.parametrize("kind", KINDS)
def test_a_record_follows_from_seed_and_number_alone(kind: str) -> None:
    one = make(kind).record

    forwards = [one(7, n) for n in range(50)]
    backwards = [one(7, n) for n in reversed(range(50))]

    assert forwards == backwards[::-1]
    assert forwards != [one(8, n) for n in range(50)]


def test_the_records_of_a_seed_stay_the_same_from_version_to_version() -> None:
    """Flows, tests and examples rely on them; change this only on purpose, and say so in the changelog."""
    assert dumps(make("orders").record(0, 0)) == PINNED_ORDER
    assert dumps(make("tweets").record(0, 3)) == PINNED_TWEET


@pytest.mark.parametrize("kind", KINDS)
@given(seed=st.integers(-(2**63), 2**63), index=st.integers(0, 10**9))
def test_a_record_has_exactly_the_columns_of_its_schema(kind: str, seed: int, index: int) -> None:
    from headrace.connectors.arrow import fit_row

    generator = make(kind)
    record = generator.record(seed, index)

    assert tuple(record) == generator.schema.names
    assert generator.key in record
    fit_row(record, generator.schema)


@pytest.mark.parametrize("kind", KINDS)
def test_event_times_advance_at_the_rate_and_some_are_late(kind: str) -> None:
    times = [make(kind).record(1, n, START, 100.0)["at"] for n in range(2000)]
    due = [START + timedelta(milliseconds=n * 10) for n in range(2000)]

    late = [d - t for t, d in zip(times, due, strict=True) if t != d]
    assert 40 < len(late) < 200
    assert all(delay > timedelta(0) for delay in late)
    assert max(times) <= due[-1]
    assert min(times) >= START


def test_the_start_moves_every_event_time() -> None:
    start = datetime(2030, 6, 1, tzinfo=UTC)
    one = make("clicks").record

    assert all(one(1, n, start)["at"] - start == one(1, n)["at"] - START for n in range(100))


def test_few_hashtags_make_most_of_the_tweets_and_which_ones_changes() -> None:
    def top(first: int) -> list[str]:
        counts = Counter(tag for n in range(first, first + 3000) for tag in make("tweets").record(5, n)["hashtags"])
        share = sum(count for _, count in counts.most_common(10)) / counts.total()
        assert 0.3 < share < 0.9
        return [tag for tag, _ in counts.most_common(5)]

    assert top(0) != top(10_000)


def test_stolen_cards_are_tried_with_small_sums_then_used_for_large_ones() -> None:
    payments = [make("card_payments").record(2, n) for n in range(5000)]
    stolen = [p for p in payments if p["fraud"]]

    assert 0.002 < len(stolen) / len(payments) < 0.02
    by_card: dict[str, list[float]] = {}
    for payment in stolen:
        by_card.setdefault(payment["card"], []).append(float(payment["amount"]))
    assert all([amount > 100 for amount in amounts[:5]] == [False] * 3 + [True] * 2 for amounts in by_card.values())


def test_json_lines_are_read_back_as_they_were() -> None:
    for kind in KINDS:
        record = make(kind).record(0, 17)
        read = json.loads(dumps(record))
        assert datetime.fromisoformat(read["at"]) == record["at"]
        assert set(read) == set(record)


def test_draws_are_even_and_ranks_are_not() -> None:
    units = [Draws(1, n).unit() for n in range(20_000)]
    assert abs(sum(units) / len(units) - 0.5) < 0.01
    assert 0 <= min(units) <= max(units) < 1

    ranks = Counter(Skewed(100).rank(Draws(1, n)) for n in range(20_000))
    assert ranks[0] > 1.7 * ranks[1] > 1.7 * ranks[9]
