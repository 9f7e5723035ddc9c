"""What a notebook shows: a flow as a picture, a preview as a table, a run as its progress; flows without a file."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest
from click.testing import CliRunner

from headrace import Flow, col
from headrace.cli.flows import explain
from headrace.declare.load import declare, write_down
from headrace.declare.parameters import Values
from headrace.declare.picture import boxes, layout, svg
from headrace.errors import UsageError
from headrace.interactive import Preview, Run
from headrace.observe import events
from headrace.run.home import Record, home_of
from headrace.run.index import Index
from headrace.run.supervisor import row_of
from tests.unit.test_front_doors import in_python

SVG = "{http://www.w3.org/2000/svg}"


def test_every_part_has_a_box_behind_what_it_reads_and_none_overlap() -> None:
    flow = in_python().build()
    drawn, wires = layout(flow)
    placed = boxes(flow, drawn)

    for wire in wires:
        assert placed[wire.port.step].x + placed[wire.port.step].width < placed[wire.to].x
    for layer in drawn:
        for upper, lower in pairwise(layer):
            assert placed[upper].y + placed[upper].height < placed[lower].y
    passing = {name for wire in wires for name in wire.via}
    assert set(placed) == {part.name for part in flow} | passing
    assert passing, "a wire that skips a layer has room in it"


def test_the_picture_is_svg_with_names_ports_and_kinds_and_escapes_what_authors_write() -> None:
    tree = Xml.fromstring(svg(in_python().build()))
    texts = {element.text for element in tree.iter(f"{SVG}text")}
    classes = [element.get("class") for element in tree.iter(f"{SVG}g")]

    assert {"orders", "per_tag", "archive", "large", "small", "otherwise", "kafka", "aggregate"} <= texts
    assert {"source", "table", "plain", "python", "state", "sink"} == set(classes)
    assert len(list(tree.iter(f"{SVG}path"))) == 1 + sum(len(part.inputs) for part in in_python().build())
    odd = Flow("a<b")
    odd.source("x", "values", rows=[], schema="a INT").filter("y", "a < 3")
    assert "a&lt;b" in odd._repr_svg_()
    assert Xml.fromstring(Flow("empty")._repr_svg_()) is not None


def test_explain_writes_the_same_picture(tmp_path: Path) -> None:
    file = Path(__file__).resolve().parents[2] / "examples" / "word-count" / "from-file.yaml"

    result = CliRunner().invoke(explain, [str(file), "--svg", str(tmp_path / "flow.svg")])

    assert result.exit_code == 0, result.output
    assert (tmp_path / "flow.svg").read_text() == svg(declare(file).flow)


def test_a_preview_is_a_list_of_records_that_shows_itself_as_a_table() -> None:
    preview = Preview((("a", "int"), ("b", "string")), ({"a": 1, "b": "<x>"}, {"a": None, "b": "y" * 100}))

    assert (len(preview), preview[0]["a"], [row["b"][0] for row in preview]) == (2, 1, ["<", "y"])
    assert "&lt;x&gt;" in preview._repr_html_()
    assert "2 records" in preview._repr_html_()
    assert repr(preview).splitlines()[:2] == ["a  b", "1  <x>"]
    assert preview.to_pandas().shape == (2, 2)


def test_a_run_shows_how_far_it_is(tmp_path: Path) -> None:
    home = home_of(tmp_path / ".headrace", "shop")
    home.make()
    record = Record(name="shop", file="shop.yaml", root=str(tmp_path), hash="h", mode="micro-batch", status="finished")
    home.write(record)
    events.append(home.events, "progress", query="q", batch=1, **{"in": 1200}, out=3, seconds=0.1)
    from headrace.observe.progress import Totals

    Index(tmp_path / ".headrace").put(row_of(record, Totals(rows_in=1200, rows_out=3, batches=1)))
    run = Run(home)

    assert "finished" in repr(run)
    assert "1,200" in run._repr_html_()
    assert not run.running
    assert run.wait(1) is run
    home.write(record.at("failed", failure={"kind": "flow", "message": "it <broke>", "retry": False}))
    assert "it &lt;broke&gt;" in run._repr_html_()
    with pytest.raises(Exception, match="it <broke>"):
        run.wait(1)


def test_a_flow_without_a_file_is_written_down_with_its_functions_and_its_parameters(tmp_path: Path) -> None:
    flow = Flow("noted")
    least = flow.param("least", int, default=1)
    ones = flow.source("ones", "values", rows=[{"a": 1}], schema="a INT")
    more = 41
    ones.filter("some", col("a") >= least).map("added", lambda r: {"b": r["a"] + more}, returns="b INT").sink(
        "screen", "console"
    )

    found = declare(write_down(flow.draft(), tmp_path), given=Values(asked={"least": 7}))

    assert found.problems == ()
    assert str(found.flow["some"].options.where) == "a >= 7"  # type: ignore[union-attr]
    assert found.flow["added"].options.python.callable({"a": 1}) == {"b": 42}  # type: ignore[union-attr]
    assert found.flow == flow.build(least=7)


def test_what_never_ends_or_is_wrong_is_not_previewed() -> None:
    flow = Flow("f")
    ticks = flow.source("ticks", "rate")

    with pytest.raises(UsageError, match='"ticks" \\(rate\\) has no records to preview'):
        ticks.preview()
    with pytest.raises(Exception, match="unknown-column"):
        ticks.filter("wrong", "nothing > 3").preview()
