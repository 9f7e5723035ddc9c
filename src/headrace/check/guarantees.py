"""Guarantees are computed: each sink's is the weakest link on its path."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.catalogue import SINKS, SOURCES
from headrace.model import Delivery, Flow, Sink, Source, Step


@dataclass(frozen=True, kw_only=True)
class Promise:
    """The guarantee of one sink, and the link that limits it."""

    sink: str
    delivery: Delivery
    because: str


def promise(flow: Flow, sink: Sink) -> Promise:
    """What a sink gives: what its author asked for, else the most its path can give."""
    can = strongest(flow, sink)
    if sink.delivery is None or Delivery.parse(sink.delivery) >= can.delivery:
        return can
    return Promise(
        sink=sink.name,
        delivery=Delivery.parse(sink.delivery),
        because=f"it asks for no more; its path can give {can.delivery}",
    )


def strongest(flow: Flow, sink: Sink) -> Promise:
    """The strongest guarantee a sink's path can give, and why it is no stronger."""
    connector = SINKS[sink.connector](sink.options)
    links = [(connector.strongest, f'sink "{sink.name}" ({sink.connector}): {connector.weakness}')]
    for name in flow.upstream(sink.name):
        part = flow[name]
        if isinstance(part, Source):
            source = SOURCES[part.connector](part.options)
            why = source.weakness or "cannot give a record twice"
            links.append((source.strongest, f'source "{name}" ({part.connector}): {why}'))
    weakest = min(links, key=lambda link: link[0])
    if weakest[0] is Delivery.EXACTLY_ONCE:
        because = "its sources can be read again, and a batch written twice is recognised"
        if moving := _moving(flow, sink):
            because += f"; one that is repeated after a crash meets {', '.join(moving)} as it is then"
        return Promise(sink=sink.name, delivery=Delivery.EXACTLY_ONCE, because=because)
    return Promise(sink=sink.name, delivery=weakest[0], because=weakest[1])


def _moving(flow: Flow, sink: Sink) -> list[str]:
    """What a batch that is repeated may find otherwise than at its first attempt: no offsets are kept of it."""
    found = []
    for part in (flow[name] for name in flow.upstream(sink.name)):
        if isinstance(part, Source) and part.table is not None and not SOURCES[part.connector].fixed:
            found.append(f'table "{part.name}"')
        elif isinstance(part, Step) and part.options.looks_outside():
            found.append(f'what step "{part.name}" looks up')
    return found
