"""Some batches of a stream, to be answered once more as one batch, with what the stream dropped as late left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.connectors.base import Between


@dataclass(frozen=True, kw_only=True)
class Span:
    """Batches that follow one another, and what was late for them."""

    between: Mapping[str, Between]
    mark: int | None = None
    """In microseconds: windows that had ended by then took no record of these batches; None: none had."""


@dataclass(frozen=True, kw_only=True)
class Again:
    """All of them, and how far the stream was."""

    spans: tuple[Span, ...] = field(default=())
    watermark: int = 0
    """In microseconds: of the last batch; results that the stream held back until then are given."""
