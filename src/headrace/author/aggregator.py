"""Aggregates of the author's own."""

from __future__ import annotations

from typing import Any, ClassVar


class Aggregator:
    """Base of aggregates in Python: `compute: {spread: {python: "module:Spread"}}`, or the class itself in Python.

        class Spread(Aggregator):
            returns = "DOUBLE"

            def init(self):
                return None

            def add(self, state, amount):
                low, high = state or (amount, amount)
                return min(low, amount), max(high, amount)

            def finish(self, state):
                return state[1] - state[0]

    The parameters of `add` behind the state are columns. All records of a window and key are added one by one, in
    the order of their times and, within one time, of their values; so the answer is the same however they came.
    The values are kept until the window is complete: its length bounds them. A plain function of lists is the same in
    short: `def spread(amount: list[float]) -> float`; a parameter annotated `pandas.Series` is given a series.
    """

    returns: ClassVar[str] = ""
    """The type of the answer; `returns` beside the reference goes over it, the annotation of `finish` under it."""

    def init(self) -> Any:
        """The state to begin with."""
        return None

    def add(self, state: Any, *values: Any) -> Any:
        """The state with one more record in it; its parameters are named as the columns it takes."""
        raise NotImplementedError

    def finish(self, state: Any) -> Any:
        """The answer."""
        return state
