"""What a rule is: a function of a flow and its wires that says all it finds, each at its place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from headrace.check.wires import Wires
from headrace.declare.draft import Claim
from headrace.errors import Problem
from headrace.model import Flow, Part, Port


@dataclass(frozen=True, kw_only=True)
class Checked:
    """What a rule may look at."""

    flow: Flow
    wires: Wires
    broken: Mapping[str, tuple[Port, ...]]
    """Parts that exist but could not be understood, and what they read; neither side is blamed."""
    claims: tuple[Claim, ...] = ()
    """What the author said about the times of inputs."""

    @cached_property
    def remembering(self) -> frozenset[str]:
        """The steps that remember something."""
        given = {step.name: self.wires.given(step) for step in self.flow.steps}
        return frozenset(
            s.name for s in self.flow.steps if given[s.name] and s.options.state(given[s.name]) is not None
        )

    @cached_property
    def closing(self) -> frozenset[str]:
        """The steps that give each window once."""
        return frozenset(s.name for s in self.flow.steps if s.options.sets_time())


Rule = Callable[[Checked], Iterator[Problem]]


def problem(
    part: Part, code: str, message: str, *option: str | int, hint: str = "", detail: str = "", warning: bool = False
) -> Problem:
    """A problem of a part, at one of its options."""
    kind = type(part).__name__.lower()
    return Problem(
        code=code,
        message=f'{kind} "{part.name}" {message}',
        location=part.places.at(*option),
        step=part.name,
        hint=hint,
        detail=detail,
        warning=warning,
    )
