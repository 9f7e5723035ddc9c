"""A goal: what a flow is to be good at. The planner (`compile/goal.py`) makes settings of it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from headrace.model import Flow
from headrace.options import Duration, Options, refuse, show_duration

_WORDS = ("latency", "throughput")


class Goal(Options):
    """What a flow is to be good at: `goal: {latency: 20 ms}`, `goal: latency` (as low as can be), `goal: throughput`.

    A flow without one runs in micro-batches that are as large as they happen to be.
    """

    shorthand: ClassVar[str] = "best"

    best: Literal["latency", "throughput"] | None = Field(
        None, description="As low or as high as can be; `{latency: best}` is the same as `latency`."
    )
    latency: Duration | None = Field(
        None, description="How long at most from a record's arrival to its answer, most of the time.", gt=timedelta(0)
    )
    checkpoint: Duration | None = Field(
        None,
        description="In real-time mode, how long between two checkpoints: a crash repeats at most so much, and at each "
        "the flow stands still for a moment. Unset: 1 minute; at least 5 seconds.",
        ge=timedelta(seconds=5),
    )

    @model_validator(mode="before")
    @classmethod
    def _best(cls, given: Any) -> Any:
        """`latency: best` is the short form's other spelling."""
        words = [word for word in _WORDS if isinstance(given, dict) and given.get(word) == "best"]
        if len(words) != 1:
            return given
        return {name: value for name, value in given.items() if name != words[0]} | {"best": words[0]}

    @model_validator(mode="after")
    def _one(self) -> Goal:
        if (self.best is None) == (self.latency is None):
            message = "a goal is either a latency or the best of something"
            raise refuse("bad-option", message, "write `goal: {latency: 20 ms}`, `goal: latency` or `goal: throughput`")
        if self.checkpoint is not None and self.best == "throughput":
            raise refuse("bad-option", "checkpoint goes with a latency: each micro-batch is a checkpoint of its own")
        return self

    @property
    def strictness(self) -> tuple[int, timedelta]:
        """Less is stricter: a stated latency, the least first, then as low as can be, then throughput."""
        if self.latency is not None:
            return 0, self.latency
        return (1 if self.best == "latency" else 2), timedelta(0)

    def __str__(self) -> str:
        return f"latency {show_duration(self.latency)}" if self.latency is not None else f"best {self.best}"


def goal_of(flow: Flow) -> Goal | None:
    """The goal of a run: the strictest of the flow's own and those of its sinks, since all of it runs in one mode."""
    said: list[Goal] = [goal for goal in (flow.goal, *(sink.goal for sink in flow.sinks)) if goal is not None]
    return min(said, key=lambda goal: goal.strictness, default=None)


def called(flow: Flow) -> str:
    """What that goal is called where the plan is read: whose it is."""
    goal = goal_of(flow)
    sinks = [sink.name for sink in flow.sinks if sink.goal is not None and sink.goal == goal]
    return f'goal of sink "{sinks[0]}"' if sinks and flow.goal != goal else "goal"
