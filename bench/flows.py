"""The works as flows of ours, with the goal as a parameter."""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import indent

_FLOW = """\
sources:
  events:
    kafka: {{topic: {topic}}}
    format: json
    schema: {schema}
{time}steps:
{steps}
sinks:
  out:
    from: {last}
    kafka: {{topic: {out}, key: {key}}}
    format: json
"""


@dataclass(frozen=True, kw_only=True)
class Work:
    """What differs from work to work: the columns, the steps, the last of them, and what is asked of the planner."""

    schema: str
    time: str = ""
    steps: str
    last: str
    key: str
    goal: str


_WORKS = {
    "w1": Work(
        schema="page STRING, type STRING, amount DOUBLE, ts TIMESTAMP",
        time="    time: {column: ts, watermark: 5 seconds}\n",
        steps="""\
shown:
  from: events
  filter: type <> 'view'
per_page:
  from: shown
  aggregate:
    by: page
    window: {tumbling: 10 seconds}
    compute: {n: count(*), total: sum(amount)}""",
        last="per_page",
        key="page",
        goal="throughput",
    ),
    "w2": Work(
        schema="user STRING, page STRING, type STRING, amount DOUBLE",
        steps="""\
bought:
  from: events
  filter: type = 'buy'
slim:
  from: bought
  select: [user, page, amount]""",
        last="slim",
        key="user",
        goal="throughput",
    ),
    "stateless": Work(
        schema="k STRING, type STRING, x BIGINT, t DOUBLE",
        steps="""\
bought:
  from: events
  filter: type = 'buy'
slim:
  from: bought
  select: [k, x, t]""",
        last="slim",
        key="k",
        goal="latency",
    ),
    "keyed": Work(
        schema="k STRING, t DOUBLE",
        steps="""\
counted:
  from: events
  aggregate: {by: k, compute: {n: count(*), t: max(t)}}""",
        last="counted",
        key="k",
        goal="latency",
    ),
    "keys": Work(
        schema="user STRING, amount DOUBLE",
        steps="""\
held:
  from: events
  aggregate: {by: user, compute: {n: count(*), total: sum(amount)}}
none:
  from: held
  filter: n > 1000000000""",
        last="none",
        key="user",
        goal="throughput",
    ),
}
WORKS = tuple(_WORKS)


def flow(work: str, topic: str, out: str, *, goal: str | None = None, also: str | None = None) -> str:
    """A flow file; `goal` goes over the work's own.

    `also` are lines of YAML to put at its top, such as an interval or a setting that is to be measured.
    """
    of = _WORKS[work]
    text = _FLOW.format(
        topic=topic, out=out, schema=of.schema, time=of.time, steps=indent(of.steps, "  "), last=of.last, key=of.key
    )
    more = f"{also.rstrip()}\n" if also else ""
    return f"flow: {work}\ngoal: {goal or of.goal}\n{more}{text}"
