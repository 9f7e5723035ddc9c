"""The live line: what is said while there are no numbers yet, and that a terminal is left as it was."""

from __future__ import annotations

from io import StringIO

import pytest

from headrace.observe.progress import Totals
from headrace.run import view as views
from headrace.run.view import View


def test_before_the_first_batch_the_line_says_what_there_is_to_wait_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "REDRAW", 0.0)
    err = StringIO()
    view = View(out=StringIO(), err=err, live=True)

    view.event({"event": "starting"})
    view.tick(Totals())
    assert err.getvalue().endswith("\r\x1b[2Kstarting Spark … 0 s")
    view.event({"event": "started"})
    view.tick(Totals())
    assert err.getvalue().endswith("\r\x1b[2Krunning, the first batch is under way … 0 s")
    view.tick(Totals(rows_in=3, batches=1))
    assert err.getvalue().endswith("\r\x1b[2Kin 3 · 0/s · 1 batch")
    view.close()
    assert err.getvalue().endswith("\r\x1b[2K")


def test_what_a_sink_prints_goes_above_the_line_and_to_the_other_stream() -> None:
    out, err = StringIO(), StringIO()
    view = View(out=out, err=err, live=False)

    view.output("a row")
    view.note("a note")

    assert (out.getvalue(), err.getvalue()) == ("a row\n", "a note\n")
