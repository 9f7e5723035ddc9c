"""The works as flows of ours, with the goal as a parameter."""

from __future__ import annotations

WORKS = ("w1", "w2", "stateless", "keyed")
_W1 = """
sources:
  events:
    kafka: {topic: TOPIC}
    format: json
    schema: page STRING, type STRING, amount DOUBLE, ts TIMESTAMP
    time: {column: ts, watermark: 5 seconds}
steps:
  shown:
    from: events
    filter: type <> 'view'
  per_page:
    from: shown
    aggregate:
      by: page
      window: {tumbling: 10 seconds}
      compute: {n: count(*), total: sum(amount)}
sinks:
  out:
    from: per_page
    kafka: {topic: OUT, key: page}
    format: json
"""
_W2 = """
sources:
  events:
    kafka: {topic: TOPIC}
    format: json
    schema: user STRING, page STRING, type STRING, amount DOUBLE
steps:
  bought:
    from: events
    filter: type = 'buy'
  slim:
    from: bought
    select: [user, page, amount]
sinks:
  out:
    from: slim
    kafka: {topic: OUT, key: user}
    format: json
"""
_STATELESS = """
sources:
  events:
    kafka: {topic: TOPIC}
    format: json
    schema: k STRING, type STRING, x BIGINT, t DOUBLE
steps:
  bought:
    from: events
    filter: type = 'buy'
  slim:
    from: bought
    select: [k, x, t]
sinks:
  out:
    from: slim
    kafka: {topic: OUT, key: k}
    format: json
"""
_KEYED = """
sources:
  events:
    kafka: {topic: TOPIC}
    format: json
    schema: k STRING, t DOUBLE
steps:
  counted:
    from: events
    aggregate: {by: k, compute: {n: count(*), t: max(t)}}
sinks:
  out:
    from: counted
    kafka: {topic: OUT, key: k}
    format: json
"""
_KEYS = """
sources:
  events:
    kafka: {topic: TOPIC}
    format: json
    schema: user STRING, amount DOUBLE
steps:
  held:
    from: events
    aggregate: {by: user, compute: {n: count(*), total: sum(amount)}}
  none:
    from: held
    filter: n > 1000000000
sinks:
  out:
    from: none
    kafka: {topic: OUT, key: user}
    format: json
"""
_FLOWS = {"w1": _W1, "w2": _W2, "stateless": _STATELESS, "keyed": _KEYED, "keys": _KEYS}
GOALS = {"w1": "throughput", "w2": "throughput", "keys": "throughput", "stateless": "latency", "keyed": "latency"}
"""What each work asks of the planner."""


def flow(work: str, topic: str, out: str, *, goal: str | None = None, also: str | None = None) -> str:
    """A flow file; `goal` goes over the work's own.

    `also` are lines of YAML to put at its top, such as an interval or a setting that is to be measured.
    """
    text = _FLOWS[work].replace("TOPIC", topic).replace("OUT", out)
    more = f"{also.rstrip()}\n" if also else ""
    return f"flow: {work}\ngoal: {goal or GOALS[work]}\n{more}{text}"
