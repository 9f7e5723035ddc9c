"""Every form of a flow becomes every other and comes back; one layout; what differs, by meaning."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from headrace import reference
from headrace.check import load
from headrace.cli.forms import convert as convert_command
from headrace.cli.forms import diff as diff_command
from headrace.cli.forms import fmt
from headrace.declare import convert as forms
from headrace.declare import flowfile, jsonfile
from headrace.declare.diff import diff
from headrace.declare.load import declare
from headrace.declare.parameters import Values
from headrace.declare.resolve import resolve
from headrace.declare.spellings import around, spellings
from headrace.declare.sql.read import read as read_sql
from headrace.declare.write import tidy
from headrace.errors import FlowError
from headrace.model import Flow
from headrace.reference import KINDS
from tests.flows import all_flows, files
from tests.unit.test_front_doors import EVERYTHING


@pytest.mark.parametrize("name", sorted(all_flows()))
def test_every_flow_goes_to_every_form_and_comes_back(name: str, tmp_path: Path) -> None:
    flow = all_flows()[name]
    for form, suffix in forms.FORMS.items():
        text = forms.write(flow, form)
        file = tmp_path / f"made{suffix}"
        file.write_text(text, encoding="utf-8")
        declared = declare(file)
        assert (declared.problems, declared.flow) == ((), flow), form
        if form != "python":
            assert forms.tidy(file, text) == text, form


@pytest.mark.parametrize("file", files(), ids=lambda file: f"{file.parent.name}/{file.name}")
def test_a_layout_is_stable_and_means_the_same(file: Path) -> None:
    once = tidy(file.read_text())
    assert tidy(once) == once
    assert resolve(flowfile.read(once)).flow == resolve(flowfile.read(file.read_text())).flow


UNTIDY = """\
# The shop.
flow:   shop
sources:
    orders:   # from the till
        kafka: {
            topic: 'orders'
        }
        format: "json"
        # as the till writes them
        schema: id BIGINT, amount DOUBLE


steps:
  large:
    from: orders
    filter: "amount > 100"
  # all that is left
  slim:
    from: large
    select:
      - id
      - amount
sinks:
  screen: {from: slim, console: {}}
# the end
"""
TIDY = """\
# The shop.
flow: shop

sources:
  orders:  # from the till
    kafka: {topic: orders}
    format: json
    # as the till writes them
    schema: id BIGINT, amount DOUBLE

steps:
  large:
    from: orders
    filter: amount > 100
  # all that is left
  slim:
    from: large
    select: [id, amount]

sinks:
  screen:
    from: slim
    console: {}
# the end
"""
UNTIDY_SQL = """\
-- The shop.
set flow='shop'; create stream orders(id bigint,amount double) -- from the till
  with (connector='kafka',topic='orders',format='json');
/* large ones */
create view large as select * from orders where amount>100 and id is not null;
create view `slim` as select id,-amount as amount,count_of.a as a, array(1,2)[0] as first,
  -- how much
  case when amount>1 then 'much' else 'little' end as much, 'a very long text that does not fit on the line' as long
  from large;
create sink screen with (connector='console'); insert into screen from slim
-- the end
"""


def test_a_flow_file_is_laid_out_with_its_comments() -> None:
    assert tidy(UNTIDY) == TIDY
    assert tidy(TIDY) == TIDY


def test_sql_is_laid_out_with_its_comments(tmp_path: Path) -> None:
    file = tmp_path / "shop.sql"
    made = forms.tidy(file, UNTIDY_SQL)
    assert made.splitlines() == [
        "-- The shop.",
        "SET flow = 'shop';",
        "",
        "CREATE STREAM orders (id bigint, amount double)  -- from the till",
        "  WITH (connector = 'kafka', topic = 'orders', format = 'json');",
        "",
        "/* large ones */",
        "CREATE VIEW large AS SELECT * FROM orders WHERE amount > 100 AND id IS NOT NULL;",
        "",
        "CREATE VIEW `slim` AS",
        "  SELECT id,",
        "    -amount AS amount,",
        "    count_of.a AS a,",
        "    array(1, 2)[0] AS first,",
        "    -- how much",
        "    CASE WHEN amount > 1 THEN 'much' ELSE 'little' END AS much,",
        "    'a very long text that does not fit on the line' AS long",
        "  FROM large;",
        "",
        "CREATE SINK screen WITH (connector = 'console');",
        "INSERT INTO screen FROM slim;",
        "",
        "-- the end",
    ]
    assert forms.tidy(file, made) == made


def test_fmt_changes_files_and_check_only_tells(tmp_path: Path) -> None:
    for name, text in (("a.yaml", UNTIDY), ("b.sql", UNTIDY_SQL), ("c.py", "x  = 1"), ("d.yaml", "flow: [")):
        (tmp_path / name).write_text(text)
    paths = [str(tmp_path / name) for name in ("a.yaml", "b.sql", "c.py")]
    told = CliRunner().invoke(fmt, ["--check", *paths])
    assert (told.exit_code, told.stdout.split()) == (1, paths[:2])
    assert "left to a Python formatter" in told.stderr
    assert (tmp_path / "a.yaml").read_text() == UNTIDY
    assert CliRunner().invoke(fmt, paths).exit_code == 0
    assert (tmp_path / "a.yaml").read_text() == TIDY
    assert CliRunner().invoke(fmt, ["--check", *paths]).exit_code == 0
    broken = CliRunner().invoke(fmt, [str(tmp_path / "d.yaml")])
    assert (broken.exit_code, "bad-yaml" in broken.stderr) == (1, True)


def test_comments_survive_json_and_an_edit_there(tmp_path: Path) -> None:
    yaml = tmp_path / "shop.yaml"
    yaml.write_text(TIDY)
    made = tmp_path / "shop.json"
    assert CliRunner().invoke(convert_command, [str(yaml), "--to", "json", "-o", str(made)]).exit_code == 0
    assert load(made) == load(yaml)
    assert CliRunner().invoke(convert_command, [str(made), "--to", "yaml"]).stdout == TIDY
    edited = json.loads(made.read_text())
    edited["steps"]["large"]["filter"] = "amount > 200"
    made.write_text(json.dumps(edited))
    again = CliRunner().invoke(convert_command, [str(made), "--to", "yaml"]).stdout
    assert again == TIDY.replace("amount > 100", "amount > 200")


def test_comments_of_sql_survive_json_and_an_edit_there(tmp_path: Path) -> None:
    sql = tmp_path / "shop.sql"
    sql.write_text(forms.tidy(sql, UNTIDY_SQL.replace("count_of.a as a, ", "")))
    made = tmp_path / "shop.json"
    made.write_text(forms.convert(sql, "json"))
    assert forms.convert(made, "sql") == sql.read_text()
    edited = json.loads(made.read_text())
    edited["steps"]["large"]["filter"] = "amount > 200"
    made.write_text(json.dumps(edited))
    again = forms.convert(made, "sql")
    assert "amount > 200" in again
    assert all(comment in again for comment in ("-- The shop.", "-- from the till", "-- how much"))


OWN = """\
from headrace import Bolt, Flow, Processor, ValueState


def named(amount: float) -> float:
    return amount + len(str(amount))


class Seen(Processor):
    n = ValueState("n BIGINT")
    returns = "n BIGINT"
    bound = "few users"

    def on_record(self, record, state, timers):
        state.n.set(state.n.get(0) + 1)
        return {"n": state.n.get()}


class Loud(Bolt):
    returns = "customer STRING"

    def execute(self, record, out):
        out.emit(record["customer"].upper())


flow = Flow("own")
orders = flow.source("orders", "generator", kind="orders")
b = orders.with_("b", x=named)
c = b.process("c", Seen, by="customer")
flow.step("d", "bolt", "orders", {"python": Loud})
c.sink("s", "console")
flow["d"].sink("t", "console")
"""


def test_functions_of_the_flows_own_file_are_named_by_it(tmp_path: Path) -> None:
    file = tmp_path / "functions_of_its_own.py"
    file.write_text(OWN)
    flow = declare(file).flow
    assert flow["b"].options.columns[0].value.reference == "functions_of_its_own:named"  # type: ignore[union-attr]
    for form in ("yaml", "sql", "json"):
        made = tmp_path / f"made{forms.FORMS[form]}"
        made.write_text(forms.convert(file, form))
        assert declare(made).flow == flow, form
        back = tmp_path / "back.py"
        back.write_text(forms.convert(made, "python"))
        assert declare(back).flow == flow, form


def test_what_a_form_cannot_say_is_named(tmp_path: Path) -> None:
    file = tmp_path / "lambdas.py"
    file.write_text(
        "from headrace import Flow\n\n\ndef named(amount: float) -> float:\n    return amount\n\n\n"
        "flow = Flow('f')\norders = flow.source('orders', 'generator', kind='orders')\n"
        "a = orders.map('a', lambda record: record, returns='id BIGINT')\n"
        "b = orders.with_('b', x=named)\na.sink('s', 'console')\nb.sink('t', 'console')\n"
    )
    for form in ("yaml", "sql", "json"):
        with pytest.raises(FlowError) as raised:
            forms.convert(file, form)
        assert [(p.code, p.step, p.location.line) for p in raised.value.problems] == [("unsupported", "a", 10)]
        assert "as a lambda" in raised.value.problems[0].hint
    assert forms.convert(file, "python") == file.read_text()
    apart = file.rename(tmp_path / "not-a-module.py")
    with pytest.raises(FlowError) as raised:
        forms.convert(apart, "yaml")
    assert [(p.step, "can be imported" in p.hint) for p in raised.value.problems] == [("a", False), ("b", True)]
    apart.rename(file)
    told = CliRunner().invoke(convert_command, [str(file), "--to", "sql"])
    assert isinstance(told.exception, FlowError)


def test_a_secret_that_is_written_out_is_not_shown() -> None:
    url = "postgresql://u:pw@h/d"
    text = (
        f"flow: f\nsources: {{a: {{rate: {{}}}}}}\nsinks: {{b: {{from: a, postgresql: {{url: '{url}', table: t}}}}}}\n"
    )
    flow = resolve(flowfile.read(text)).flow
    with pytest.raises(FlowError) as raised:
        forms.write(flow, "sql")
    assert "pw" not in str(raised.value)
    hidden = resolve(flowfile.read(text.replace(url, "${env:URL}"))).flow
    assert "${env:URL}" in forms.write(hidden, "sql")


# -- JSON


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("{", 1, 2),
        ('{"flow": }', 1, 10),
        ('{"flow": "x"', 1, 13),
        ('{"flow": "x",\n  sources: {}}', 2, 3),
        ("[1, 2", 1, 6),
    ],
)
def test_json_that_cannot_be_read_is_a_problem_at_its_place(text: str, line: int, column: int) -> None:
    (problem,) = jsonfile.read(text, "f.json").problems
    assert (problem.code, problem.location.line, problem.location.column) == ("bad-flow", line, column)


def test_a_problem_in_json_is_at_its_place() -> None:
    text = '{\n  "flow": "f",\n  "sources": {"a": {"kafka": {"topik": "x"}, "format": "json"}}\n}'
    found = resolve(jsonfile.read(text, "f.json")).problems
    assert [(p.code, p.location.line, p.location.column) for p in found] == [("unknown-option", 3, 31)]


# -- diff


def changed(before: str, after: str) -> list[str]:
    return [str(change) for change in diff(_flow(before), _flow(after))]


def _flow(text: str) -> Flow:
    declared = resolve(flowfile.read(text))
    assert declared.problems == ()
    return declared.flow


def test_nothing_differs_in_another_spelling() -> None:
    spelled = EVERYTHING.replace("price * quantity", "price*quantity").replace("10 seconds}", "10 s}")
    assert changed(EVERYTHING, spelled) == []


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("rows: 3", "rows: 5", ['step "few": rows: 3 -> 5']),
        ("total: price * quantity", "total: price", ['step "priced": columns.total: price * quantity -> price']),
        ("watermark: 10 seconds}\n  more", "watermark: 1 minute}\n  more", [
            'source "orders": time.watermark: 10 seconds -> 1 minute'
        ]),
        ("partitions: 4", "partitions: 8", ["flow: spark.sql.shuffle.partitions: 4 -> 8"]),
        ("y: exactly-once", "y: at-least-once", ['sink "archive": delivery: exactly-once -> at-least-once']),
        ("    delivery: exactly-once\n", "", ['sink "archive": delivery: exactly-once -> (default)']),
        ("from: letters\n", "from: chosen\n", ['sink "screen" reads from chosen instead of letters']),
        ("distinct: [id, tag]", "limit: {rows: 1, by: id}", ['step "once" is limit instead of distinct']),
    ],
)  # fmt: skip
def test_a_change_is_told_by_meaning(old: str, new: str, told: list[str]) -> None:
    assert old in EVERYTHING
    assert changed(EVERYTHING, EVERYTHING.replace(old, new)) == told


def test_a_renamed_step_is_told_as_that_and_nothing_else() -> None:
    renamed = EVERYTHING.replace("  known:\n", "  sure:\n").replace("from: known", "from: sure")
    assert changed(EVERYTHING, renamed) == ['step "known" is renamed to "sure"']


def test_parts_that_come_and_go_are_told() -> None:
    without = EVERYTHING.replace("  screen:\n    from: letters\n    console: {}\n", "")
    assert changed(EVERYTHING, without) == ['sink "screen" is removed (console)']
    assert changed(without, EVERYTHING) == ['sink "screen" is added (console)']


COUNTS = """\
flow: counts
sources:
  orders: {generator: {kind: orders}, time: {column: at, watermark: 1 s}}
steps:
  per_user: {from: orders, aggregate: {by: customer, window: {tumbling: 1 minute}, compute: {n: count(*)}}}
sinks:
  screen: {from: per_user, console: {}}
"""


def test_the_command_tells_what_it_does_to_state_and_ends_as_diff_does(tmp_path: Path) -> None:
    a, b = tmp_path / "a.yaml", tmp_path / "b.yaml"
    a.write_text(COUNTS)
    b.write_text(COUNTS.replace("1 minute", "2 minutes"))
    same = CliRunner().invoke(diff_command, [str(a), str(a)])
    assert (same.exit_code, same.stdout) == (0, ""), same.exception
    told = CliRunner().invoke(diff_command, [str(a), str(b)])
    assert told.exit_code == 1
    assert told.stdout.splitlines() == [
        'step "per_user": window.tumbling: 1 minute -> 2 minutes',
        "state:",
        '  step "per_user" means something else than when its state was made',
    ]
    answer = json.loads(CliRunner().invoke(diff_command, ["--json", str(a), str(b)]).stdout)
    assert [c["option"] for c in answer["changes"]] == ["window.tumbling"]
    assert answer["state"]["in_the_way"]


# -- the reference


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, names in KINDS.items() for name in names])
def test_the_spellings_of_every_part_in_the_reference_mean_the_same(kind: str, name: str, tmp_path: Path) -> None:
    flow, part = around(kind, KINDS[kind][name].example)
    shown = spellings(kind, KINDS[kind][name].example)
    feeding = [source for source in flow.sources if source.name != part]
    streams = "".join(f"CREATE STREAM {s.name} WITH (connector = 'rate');\n" for s in feeding)
    sql = resolve(read_sql(streams + shown["sql"], "x.sql", flow.name))
    assert (sql.problems, sql.flow) == ((), flow)

    lines = "".join(f"{s.name} = flow.source({s.name!r}, 'rate')\n" for s in feeding)
    windows = "from headrace import Flow, count, hopping, session, sliding, tumbling\n"
    (tmp_path / "x.py").write_text(f"{windows}flow = Flow({flow.name!r})\n{lines}{shown['python']}\n")
    assert declare(tmp_path / "x.py").flow == flow


def test_the_reference_shows_them() -> None:
    page = reference.markdown()
    for kind, names in KINDS.items():
        for thing in names.values():
            assert all(f"\n{text}\n```" in page for text in spellings(kind, thing.example).values())


# -- parameters


OPEN = """\
flow: open
parameters:
  limit: {type: int, default: 100, description: What is large.}
  kind: {type: string, default: orders}
sources:
  orders: {generator: {kind: "${param:kind}", limit: 10}}
steps:
  large: {from: orders, filter: "amount > ${param:limit} AND category <> '${param:kind}'"}
  few: {from: large, limit: {rows: "${param:limit}", by: customer}}
sinks:
  screen: {from: few, console: {}}
"""


def test_parameters_are_said_in_every_form(tmp_path: Path) -> None:
    flow = resolve(flowfile.read(OPEN)).flow
    for form, suffix in forms.FORMS.items():
        file = tmp_path / f"open{suffix}"
        file.write_text(forms.write(flow, form))
        assert "${param:limit}" in file.read_text()
        given = Values(asked={"limit": 7})
        assert declare(file).flow == flow
        assert declare(file, given=given).flow == resolve(flowfile.read(OPEN), given).flow
    sql = (
        "SET flow = 'open'; SET parameters.limit = {type: int, default: 100, description: 'What is large.'};\n"
        "SET parameters.kind = {type: 'string', default: 'orders'};\n"
        "CREATE STREAM orders WITH (connector = 'generator', kind = ${param:kind}, limit = 10);\n"
        "CREATE VIEW large AS SELECT * FROM orders WHERE amount > ${param:limit} AND category <> '${param:kind}';\n"
        "CREATE VIEW few AS SELECT * FROM large LIMIT ${param:limit} BY customer;\n"
        "CREATE SINK screen FROM few WITH (connector = 'console')"
    )
    assert resolve(read_sql(sql)).flow == flow
    assert "${param:limit} BY" in forms.tidy(tmp_path / "x.sql", sql)


RULED = """\
flow: ruled
dead_letters: {per_minute: 50}
sources:
  orders:
    kafka: orders
    format: json
    schema: id BIGINT, amount DOUBLE
    expect: {rules: [id IS NOT NULL, {column: amount, min: 0, in: [1, 2]}], else: drop}
steps:
  large: {from: orders, filter: amount > 1, expect: amount < 1000}
  counted: {from: large, aggregate: {by: id, compute: {n: count(*)}}, expect: [n > 0, {that: n < 100, name: few}]}
sinks:
  screen: {from: counted, console: {}}
  bad: {from: orders.dead_letter, console: {}}
"""


def test_rules_and_dead_letters_are_said_in_every_form(tmp_path: Path) -> None:
    declared = resolve(flowfile.read(RULED))
    assert declared.problems == ()
    for form, suffix in forms.FORMS.items():
        file = tmp_path / f"ruled{suffix}"
        file.write_text(forms.write(declared.flow, form))
        assert declare(file).flow == declared.flow, file.read_text()
    assert changed(RULED, RULED.replace("amount < 1000", "amount < 2000")) == [
        'step "large": expect: amount < 1000 -> amount < 2000'
    ]
    assert changed(RULED, RULED.replace("per_minute: 50", "per_minute: 60")) == [
        "flow: dead_letters.per_minute: 50 -> 60"
    ]
