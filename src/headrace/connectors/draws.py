"""Random draws that depend on nothing but a seed and a row number.

SplitMix64 rather than `random`: starting a `random.Random` for each row costs more than the row, and its methods
may change with Python's version, which would change what a seed means.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from typing import TypeVar

T = TypeVar("T")
_MASK = (1 << 64) - 1


def mix(number: int) -> int:
    """A number that looks unrelated to the given one; 64 bits."""
    number = (number + 0x9E3779B97F4A7C15) & _MASK
    number = ((number ^ (number >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    number = ((number ^ (number >> 27)) * 0x94D049BB133111EB) & _MASK
    return number ^ (number >> 31)


class Draws:
    """A sequence of draws for one row.

    >>> Draws(7, 1).below(100) == Draws(7, 1).below(100)
    True
    """

    __slots__ = ("_state",)

    def __init__(self, *identity: int) -> None:
        state = 0
        for number in identity:
            state = mix(state ^ (number & _MASK))
        self._state = state

    def unit(self) -> float:
        """A number from 0 up to, not including, 1."""
        self._state = (self._state + 0x9E3779B97F4A7C15) & _MASK
        return (mix(self._state) >> 11) / (1 << 53)

    def below(self, end: int) -> int:
        """A whole number from 0 up to, not including, `end`."""
        return int(self.unit() * end)

    def chance(self, share: float) -> bool:
        """True in that share of draws."""
        return self.unit() < share

    def pick(self, choices: Sequence[T]) -> T:
        """One of the choices, each as likely."""
        return choices[self.below(len(choices))]

    def exponential(self, mean: float) -> float:
        """Waiting times: mostly short, now and then long."""
        return -mean * math.log(1.0 - self.unit())

    def normal(self, mean: float, spread: float) -> float:
        """The bell curve."""
        radius = math.sqrt(-2.0 * math.log(1.0 - self.unit()))
        return mean + spread * radius * math.cos(2.0 * math.pi * self.unit())


class Skewed:
    """Ranks by Zipf's law: rank 0 is most likely, each next one less."""

    __slots__ = ("_limits",)

    def __init__(self, size: int, exponent: float = 1.0) -> None:
        weights = list(accumulate(1.0 / (rank + 1) ** exponent for rank in range(size)))
        self._limits = [weight / weights[-1] for weight in weights]

    def rank(self, draws: Draws) -> int:
        """A rank from 0 up to, not including, the size."""
        return min(bisect_left(self._limits, draws.unit()), len(self._limits) - 1)
