"""Frozen values that describe a flow. This room imports nothing of ours."""

from headrace.model.delivery import REMOVED, Changes, Delivery, Mode
from headrace.model.flow import DEAD_LETTER, OUT, Flow, Parameter, Part, Places, Port, Sink, Source, Step
from headrace.model.location import Location
from headrace.model.schema import Schema

__all__ = [
    "DEAD_LETTER",
    "OUT",
    "REMOVED",
    "Changes",
    "Delivery",
    "Flow",
    "Location",
    "Mode",
    "Parameter",
    "Part",
    "Places",
    "Port",
    "Schema",
    "Sink",
    "Source",
    "Step",
]
