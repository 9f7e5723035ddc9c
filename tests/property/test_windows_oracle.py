"""The oracle of the windows judged by what must hold of any windows, so that it can judge in turn."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.oracles.windows import Record, Session, Tumbling, fixed, sessions

RECORDS = st.lists(
    st.builds(
        Record, st.sampled_from(["a", "b", None]), st.none() | st.integers(0, 200), st.none() | st.integers(-9, 9)
    )
)
STREAMS = st.lists(RECORDS, max_size=6)
FOR_EVER = 10**9


@given(STREAMS, st.integers(1, 50), st.integers(1, 50))
def test_without_lateness_order_and_batches_do_not_matter(batches: list[list[Record]], length: int, every: int) -> None:
    window = Tumbling(length=max(length, every), every=min(length, every))
    whole = [sorted((r for batch in batches for r in batch), key=str)]
    assert sorted(fixed(batches, window, FOR_EVER).answers, key=str) == sorted(
        fixed(whole, window, FOR_EVER).answers, key=str
    )
    gap = Session(gap=length)
    assert sorted(sessions(batches, gap, FOR_EVER).answers, key=str) == sorted(
        sessions(whole, gap, FOR_EVER).answers, key=str
    )


@given(STREAMS, st.integers(1, 50), st.integers(0, 100))
def test_every_record_with_a_time_is_counted_once_or_late(batches: list[list[Record]], length: int, delay: int) -> None:
    timed = sum(1 for batch in batches for r in batch if r.at is not None)
    for result in (fixed(batches, Tumbling(length=length), delay), sessions(batches, Session(gap=length), delay)):
        assert sum(a.n for a in result.answers) + len(result.late) == timed


@given(STREAMS, st.integers(1, 50), st.integers(0, 100))
def test_a_window_is_given_once(batches: list[list[Record]], length: int, delay: int) -> None:
    answers = fixed(batches, Tumbling(length=length), delay).answers
    assert len({(a.key, a.start) for a in answers}) == len(answers)
