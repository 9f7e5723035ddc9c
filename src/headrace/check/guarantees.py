"""Guarantees are computed: each sink's is the weakest link on its path."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.catalogue import SINKS, SOURCES
from headrace.model import Delivery, Flow, Sink, Source


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
        return Promise(
            sink=sink.name,
            delivery=Delivery.EXACTLY_ONCE,
            because="its sources can be read again, and a batch written twice is recognised",
        )
    return Promise(sink=sink.name, delivery=weakest[0], because=weakest[1])
