"""SQL: what statements become, that every part can be said, and what is refused, at its place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headrace.check import check, load
from headrace.declare import flowfile
from headrace.declare.convert import convert
from headrace.declare.load import declare
from headrace.declare.resolve import resolve
from headrace.declare.sql.read import read
from headrace.declare.sql.write import tidy, write
from headrace.errors import Problem
from headrace.model import Flow
from tests.flows import EXAMPLES, all_flows

STREAMS = """\
CREATE STREAM orders (id BIGINT, user STRING, amount DOUBLE, tags ARRAY<STRING>, at TIMESTAMP,
  EVENT TIME at WATERMARK '10 seconds') WITH (connector = 'kafka', topic = 'orders', format = 'json');
CREATE STREAM payments (order_id BIGINT, paid DOUBLE, paid_at TIMESTAMP, EVENT TIME paid_at WATERMARK '10 seconds')
  WITH (connector = 'kafka', topic = 'payments', format = 'json');
"""
IN_YAML = """\
flow: x
sources:
  orders:
    kafka: orders
    format: json
    schema: id BIGINT, user STRING, amount DOUBLE, tags ARRAY<STRING>, at TIMESTAMP
    time: {column: at, watermark: 10 seconds}
  payments:
    kafka: payments
    format: json
    schema: order_id BIGINT, paid DOUBLE, paid_at TIMESTAMP
    time: {column: paid_at, watermark: 10 seconds}
"""


def flow_of(text: str) -> Flow:
    declared = resolve(read(text, "x.sql", "x"))
    assert declared.problems == ()
    return declared.flow


def steps_of(text: str) -> Flow:
    """The flow of a flow file that has the two streams and these steps."""
    declared = resolve(flowfile.read(f"{IN_YAML}steps:\n{text}", "x.yaml"))
    assert declared.problems == ()
    return declared.flow


SAME: list[tuple[str, str]] = [
    ("SELECT * FROM orders WHERE amount > 3", "v: {from: orders, filter: amount > 3}"),
    ("SELECT o.id, o.user AS who FROM orders o", "v: {from: orders, select: [id, user AS who]}"),
    ("SELECT *, amount * 2 AS twice FROM orders", "v: {from: orders, with: {twice: amount * 2}}"),
    ("SELECT * EXCEPT (tags, at) FROM orders", "v: {from: orders, drop: [tags, at]}"),
    ("SELECT * RENAME (user AS customer) FROM orders", "v: {from: orders, rename: {user: customer}}"),
    ("SELECT explode(tags) AS tag FROM orders", "v: {from: orders, flat_map: {each: tags, as: tag}}"),
    ("SELECT *, explode_outer(tags) tag FROM orders", "v: {from: orders, explode: {each: tags, as: tag, outer: true}}"),
    ("SELECT * FROM orders LATERAL VIEW explode(tags) t AS tag", "v: {from: orders, explode: {each: tags, as: tag}}"),
    (
        "SELECT id, explode(tags) AS tag FROM orders",
        "v_explode: {from: orders, explode: {each: tags, as: tag}}\n  v: {from: v_explode, select: [id, tag]}",
    ),
    ("SELECT DISTINCT * FROM orders", "v: {from: orders, distinct: {}}"),
    (
        "SELECT DISTINCT ON (id) * FROM orders WITHIN '1 hour'",
        "v: {from: orders, distinct: {by: id, within: 1 hour}}",
    ),
    ("SELECT * FROM orders LIMIT 3 BY user", "v: {from: orders, limit: {rows: 3, by: user}}"),
    ("SELECT * FROM orders UNION ALL SELECT * FROM orders", "v: {from: [orders, orders], union: {}}"),
    ("SELECT * FROM orders", "v: {from: orders, union: {}}"),
    (
        "SELECT user, count(*) AS n FROM orders GROUP BY user",
        "v: {from: orders, aggregate: {by: user, compute: {n: count(*)}}}",
    ),
    ("SELECT count(*) AS n FROM orders", "v: {from: orders, aggregate: {compute: {n: count(*)}}}"),
    (
        "SELECT window_start, window_end, lower(user) AS who, sum(amount) AS total FROM orders "
        "GROUP BY lower(user), tumble(at, '1 minute') EMIT EVERY '5 seconds' LATE CORRECT FOR '1 hour'",
        "v: {from: orders, aggregate: {by: {who: lower(user)}, window: {tumbling: 1 minute}, "
        "compute: {total: sum(amount)}, emit: {early: 5 seconds}, late: correct, allowance: 1 hour}}",
    ),
    (
        "SELECT window.start AS window_start, window.end AS window_end, count(*) AS n FROM orders "
        "GROUP BY window(at, '10 seconds', INTERVAL '5' SECOND) EMIT FINAL LATE TO PORT",
        "v: {from: orders, aggregate: {window: {hopping: 10 s, every: 5 s}, compute: {n: count(*)}, "
        "emit: final, late: port}}",
    ),
    (
        "SELECT window_start, window_end, count(*) AS n FROM orders GROUP BY session_window(at, '30 seconds')",
        "v: {from: orders, aggregate: {window: {session: 30 s}, compute: {n: count(*)}}}",
    ),
    (
        "SELECT window_start, window_end, count(*) AS n FROM orders GROUP BY session('30 s', at_most => '1 hour')",
        "v: {from: orders, aggregate: {window: {session: 30 s, at_most: 1 hour}, compute: {n: count(*)}}}",
    ),
    (
        "SELECT window_start, window_end, user, max(amount) AS most FROM orders GROUP BY user, count_window(10, 5)",
        "v: {from: orders, aggregate: {by: user, window: {count: 10, each: 5}, compute: {most: max(amount)}}}",
    ),
    (
        "SELECT window_start, window_end, window_number, max(amount) AS most FROM orders GROUP BY count_window(10) "
        "EMIT CHANGES",
        "v: {from: orders, aggregate: {window: {count: 10}, compute: {most: max(amount)}, emit: changes}}",
    ),
    (
        "SELECT window_end, max(amount) AS most FROM orders GROUP BY count_window(10) EMIT EVERY '5 s' LATE TO PORT",
        "v_group: {from: orders, aggregate: {window: {count: 10}, compute: {most: max(amount)}, emit: {early: 5 s}, "
        "late: port}}\n  v: {from: v_group, select: [window_end, most]}",
    ),
    (
        "SELECT window_start, window_end, count(*) AS n FROM orders GROUP BY tumble('1 day', zone => 'Europe/Berlin')",
        "v: {from: orders, aggregate: {window: {tumbling: 1 day, zone: Europe/Berlin}, compute: {n: count(*)}}}",
    ),
    (
        "SELECT window_start, window_end, count(*) AS n FROM orders GROUP BY slide(at, '1 minute')",
        "v: {from: orders, aggregate: {window: {sliding: 1 minute}, compute: {n: count(*)}}}",
    ),
    (
        "SELECT user, count(*) AS n FROM orders WHERE amount > 1 GROUP BY user HAVING count(*) > 2",
        "v_where: {from: orders, filter: amount > 1}\n"
        "  v_group: {from: v_where, aggregate: {by: user, compute: {n: count(*)}}}\n"
        "  v: {from: v_group, filter: n > 2}",
    ),
    (
        "SELECT count(*) AS n, user FROM orders GROUP BY 2",
        "v_group: {from: orders, aggregate: {by: user, compute: {n: count(*)}}}\n"
        "  v: {from: v_group, select: [n, user]}",
    ),
    (
        "SELECT * FROM orders JOIN payments ON orders.id = payments.order_id WITHIN '10 minutes'",
        "v: {from: [orders, payments], join: {on: {id: order_id}, within: 10 minutes}}",
    ),
    (
        "SELECT * FROM orders o LEFT JOIN payments AS p ON o.id = p.order_id "
        "AND p.paid_at BETWEEN o.at - INTERVAL 5 SECONDS AND o.at + INTERVAL 10 MINUTES PREFIX 'p_'",
        "v: {from: [orders, payments], join: {on: {id: order_id}, within: {before: 5 s, after: 10 min}, "
        "kind: left, prefix: p_}}",
    ),
    (
        "SELECT o.id, p.paid AS paid FROM orders o JOIN payments p ON p.order_id = o.id "
        "AND o.at <= p.paid_at AND p.paid_at <= o.at + INTERVAL 1 HOUR PREFIX 'p_' WHERE p.paid > o.amount",
        "v_join: {from: [orders, payments], join: {on: {id: order_id}, within: {after: 1 hour}, prefix: p_}}\n"
        "  v_where: {from: v_join, filter: p_paid > amount}\n"
        "  v: {from: v_where, select: [id, p_paid AS paid]}",
    ),
    (
        "SELECT * FROM orders ASOF LEFT JOIN payments ON orders.id = payments.order_id "
        "AND orders.at >= payments.paid_at TOLERANCE '5 seconds'",
        "v: {from: [orders, payments], as_of: {on: {id: order_id}, tolerance: 5 s}}",
    ),
    (
        "SELECT * FROM orders LEFT LOOKUP JOIN sqlite (path = 'shop.db', table = 'p') ON id = nr TAKE (name STRING) "
        "WITH (cache.rows = 10)",
        "v: {from: orders, lookup: {sqlite: {path: shop.db, table: p}, on: {id: nr}, take: name STRING, "
        "cache: {rows: 10}}}",
    ),
    (
        "TRANSFORM orders USING split WITH (large = amount > 100, small = 'amount > 1')",
        "v: {from: orders, split: {large: amount > 100, small: amount > 1}}",
    ),
    (
        "WITH big AS (SELECT * FROM orders WHERE amount > 1) SELECT id FROM (SELECT * FROM big WHERE id > 0) AS some_",
        "v_big: {from: orders, filter: amount > 1}\n  v_some_: {from: v_big, filter: id > 0}\n"
        "  v: {from: v_some_, select: id}",
    ),
]


@pytest.mark.parametrize(("sql", "yaml"), SAME)
def test_a_query_is_the_same_flow_as_in_a_flow_file(sql: str, yaml: str) -> None:
    assert flow_of(f"{STREAMS}CREATE VIEW v AS {sql};") == steps_of(f"  {yaml}")


def test_a_query_into_a_sink_is_named_after_it_and_late_records_can_go_to_one() -> None:
    flow = flow_of(
        STREAMS + "CREATE SINK late WITH (connector = 'console');\nCREATE SINK out WITH (connector = 'console');\n"
        "CREATE VIEW v AS SELECT window_start, window_end, count(*) AS n FROM orders GROUP BY tumble(at, '1 s') "
        "LATE TO late;\nINSERT INTO out SELECT n FROM v WHERE n > 1"
    )
    assert [s.name for s in flow.steps] == ["v", "out_rows_where", "out_rows"]
    assert [str(s.inputs[0]) for s in flow.sinks] == ["v.late", "out_rows"]


SINK = "CREATE SINK {} WITH (connector = 'console');\n"
LETTERS = (
    STREAMS.replace("format = 'json');", "format = 'json') DEAD LETTERS TO bad;", 1)
    + SINK.format("bad")
    + SINK.format("slow")
    + SINK.format("out")
    + "CREATE VIEW v AS SELECT *, id + 1 AS next FROM orders WHERE amount > 1\n  DEAD LETTERS TO bad;\n"
    "INSERT INTO out SELECT id FROM v WHERE id > 1 DEAD LETTERS TO slow;\n"
)


def test_dead_letters_of_all_that_a_statement_makes_go_to_a_sink(tmp_path: Path) -> None:
    flow = flow_of(LETTERS)
    assert [[str(port) for port in sink.inputs] for sink in flow.sinks] == [
        ["bad_letters"],
        ["slow_letters"],
        ["out_rows"],
    ]
    assert [flow.letters_of(sink.inputs[0]) for sink in flow.sinks] == [
        ("orders", "v_where", "v"),
        ("out_rows_where", "out_rows"),
        (),
    ]
    alone = flow_of(LETTERS.replace("\n  DEAD LETTERS TO bad", ""))
    assert str(alone.sinks[0].inputs[0]) == "orders.dead_letter"
    file = tmp_path / "x.sql"
    file.write_text(LETTERS)
    assert "\n  DEAD LETTERS TO bad;" in tidy(LETTERS)
    for form in ("yaml", "json", "sql", "python"):
        made = tmp_path / ("back.py" if form == "python" else f"back.{form}")
        made.write_text(convert(file, form))
        assert resolve(read(convert(made, "sql"), name=flow.name)).flow == flow


def test_an_edit_of_a_statement_keeps_the_sinks_it_feeds(tmp_path: Path) -> None:
    text = LETTERS.replace("CREATE SINK bad", "-- what was refused\nCREATE SINK bad")
    file = tmp_path / "f.json"
    (tmp_path / "f.sql").write_text(text)
    file.write_text(convert(tmp_path / "f.sql", "json"))
    said = json.loads(file.read_text())
    for step, where in (("v_where", "amount > 2"), ("out_rows_where", "id > 2")):
        file.write_text(json.dumps(said | {"steps": said["steps"] | {step: said["steps"][step] | {"filter": where}}}))
        again = convert(file, "sql")
        assert resolve(read(again, name="f")).flow == declare(file).flow
        # the steps of another statement keep their order only if all is written anew
        assert ("-- what was refused" in again) == (step == "v_where")


def test_settings_tables_formats_and_other_spellings_of_time() -> None:
    flow = flow_of(
        """
        CREATE FLOW `my-flow`; SET state = 'memory'; SET 'spark.sql.shuffle.partitions' = 4;
        CREATE TABLE people (id BIGINT, name STRING, at TIMESTAMP, PRIMARY KEY (id) LATEST BY at) REFRESH '1 minute'
          WITH (connector = 'files', path = 'people', format.separator = ';', format = 'csv');
        CREATE STREAM a (id BIGINT, at TIMESTAMP, WATERMARK FOR at AS at - INTERVAL '5' SECOND)
          WITH (connector = 'kafka', topic = 'a', format = 'json', format.nulls = false);
        CREATE STREAM b (id BIGINT, at STRING, EVENT TIME at WATERMARK '5 s' WITH (format = 'dd.MM.yyyy', idle = '1 m'))
          WITH (connector = 'kafka', 'topic' = 'b', format = {json: {nulls: false}});
        CREATE STREAM c (INGESTION TIME WATERMARK '1 second') WITH (connector = 'rate');
        """
    )
    told = resolve(
        flowfile.read(
            """
flow: my-flow
state: memory
spark: {spark.sql.shuffle.partitions: 4}
sources:
  people:
    files: people
    format: {csv: {separator: ";"}}
    schema: id BIGINT, name STRING, at TIMESTAMP
    table: {refresh: 1 minute, key: id, latest_by: at}
  a:
    kafka: a
    format: {json: {nulls: false}}
    schema: id BIGINT, at TIMESTAMP
    time: {column: at, watermark: 5 s}
  b:
    kafka: b
    format: {json: {nulls: false}}
    schema: id BIGINT, at STRING
    time: {column: at, watermark: 5 s, format: dd.MM.yyyy, idle: 1 m}
  c:
    rate: {}
    time: {kind: ingestion, watermark: 1 s}
"""
        )
    )
    assert told.problems == ()
    assert flow == told.flow


@pytest.mark.parametrize("name", sorted(all_flows()))
def test_every_flow_and_every_part_of_the_catalogue_can_be_said_in_sql(name: str) -> None:
    flow = all_flows()[name]
    text = write(flow)
    assert flow_of(text) == flow
    assert tidy(text) == text


@pytest.mark.parametrize(
    ("yaml", "sql"),
    [
        ("word-count/from-file.yaml", "word-count/from-file.sql"),
        ("word-count/from-topic.yaml", "word-count/from-topic.sql"),
        ("tweets-last-ten-seconds/flow.yaml", "tweets-last-ten-seconds/flow.sql"),
        ("hashtag-velocity/flow.yaml", "hashtag-velocity/flow.sql"),
        ("drivers-hours/flow.yaml", "drivers-hours/in-sql.sql"),
        ("drivers-hours/in_python.py", "drivers-hours/in-sql.sql"),
        ("web-sessions/in_python.py", "web-sessions/in-sql.sql"),
        ("hashtag-velocity/in_python.py", "hashtag-velocity/flow.sql"),
        ("../src/headrace/demo/hashtag-velocity.yaml", "hashtag-velocity/flow.sql"),
    ],
)
def test_the_forms_of_an_example_are_equal(yaml: str, sql: str) -> None:
    assert load(EXAMPLES / yaml) == load(EXAMPLES / sql)


def test_python_functions_are_columns_and_conditions(tmp_path: Path) -> None:
    (tmp_path / "rules_for_sql.py").write_text(
        "def tax(amount: float, user: str) -> float: return amount\ndef fine(id: int) -> bool: return id > 0\n"
    )
    file = tmp_path / "f.sql"
    made = "CREATE FUNCTION tax AS PYTHON 'rules_for_sql:tax' RETURNS double; "
    made += "CREATE FUNCTION fine AS PYTHON 'rules_for_sql:fine';"
    sinks = "CREATE SINK s WITH (connector = 'console'); INSERT INTO s FROM v;"
    sinks += "CREATE SINK p FROM payments WITH (connector = 'console');"
    file.write_text(f"{made}{STREAMS}CREATE VIEW v AS SELECT *, tax(amount, user) AS tax FROM orders;\n{sinks}")
    flow = load(file)
    assert flow["v"].options.columns[0].value.plain() == {"python": "rules_for_sql:tax", "returns": "double"}  # type: ignore[union-attr]
    assert flow_of(write(flow)).steps == flow.steps
    file.write_text(f"{made}{STREAMS}CREATE VIEW v AS SELECT * FROM orders WHERE fine(id);\n{sinks}")
    assert flow_of(write(load(file))).steps == load(file).steps
    file.write_text(f"{made}{STREAMS}CREATE VIEW v AS SELECT *, tax(user, amount) AS tax FROM orders;\n{sinks}")
    assert [p.code for p in declare(file).problems] == ["bad-function"]


def problems_of(text: str) -> list[Problem]:
    return [p for p in check(resolve(read(text, "x.sql", "x"))).problems if not p.warning and p.code != "unused"]


V = "CREATE VIEW v AS "
END = "; CREATE SINK s WITH (connector = 'console'); INSERT INTO s FROM v"
REFUSED: list[tuple[str, str]] = [
    # statements; ‸ is where the problem is
    ("bad-sql", "‸FOO"),
    ("bad-sql", "‸SELECT * FROM orders"),
    ("bad-sql", ";;; ‸nonsense"),
    ("unsupported", "‸DROP VIEW v"),
    ("unsupported", "‸DELETE FROM orders"),
    ("bad-sql", "CREATE ‸THING x"),
    ("bad-sql", "CREATE OR REPLACE ‸VIEW v AS SELECT 1"),
    ("bad-sql", "CREATE VIEW IF NOT EXISTS ‸v AS SELECT * FROM orders"),
    ("bad-sql", "CREATE VIEW ‸'v' AS SELECT * FROM orders"),
    ("bad-sql", "CREATE VIEW v ‸SELECT * FROM orders"),
    ("bad-sql", "CREATE VIEW v ‸(a, b) AS SELECT * FROM orders"),
    ("bad-name", "CREATE VIEW ‸`a b` AS SELECT * FROM orders WHERE id > 1"),
    ("duplicate-name", "CREATE VIEW v AS SELECT id FROM orders; CREATE VIEW ‸v AS SELECT id FROM orders" + END),
    ("duplicate-name", "CREATE VIEW ‸orders AS SELECT id FROM payments"),
    # settings
    ("unknown-option", "SET ‸colour = 'red'"),
    ("bad-sql", "SET flow ‸'x'"),
    ("duplicate-name", "SET flow = 'a'; SET ‸flow = 'b'"),
    ("bad-option", "SET state = '‸paper'"),
    ("bad-name", "SET flow = '‸a b'"),
    # streams and sinks
    ("missing-option", "CREATE STREAM a (id BIGINT) WITH ‸(topic = 'a')"),
    ("unknown-connector", "CREATE STREAM a (id BIGINT) WITH (connector = '‸kafkaa', topic = 'a', format = 'json')"),
    ("unknown-option", "CREATE STREAM a (id BIGINT) WITH (connector = 'kafka', ‸topik = 'a', format = 'json')"),
    ("unknown-format", "CREATE STREAM a (id BIGINT) WITH (connector = 'kafka', topic = 'a', format = '‸yson')"),
    ("bad-schema", "CREATE STREAM a (id ‸BIGNUM) WITH (connector = 'kafka', topic = 'a', format = 'json')"),
    ("bad-sql", "CREATE STREAM a (id ‸, BIGINT) WITH (connector = 'kafka')"),
    ("bad-schema", "CREATE STREAM a (id BIGINT, ‸id INT) WITH (connector = 'kafka', topic = 'a', format = 'json')"),
    ("duplicate-name", "CREATE STREAM a (id BIGINT) WITH (connector = 'kafka', topic = 'a', ‸topic = 'b')"),
    ("bad-option", "CREATE STREAM a (at TIMESTAMP, EVENT TIME at WATERMARK '‸soon') WITH (connector = 'rate')"),
    ("duplicate-name", "CREATE STREAM a (EVENT TIME at, ‸EVENT TIME b) WITH (connector = 'rate')"),
    ("bad-sql", "CREATE STREAM a (EVENT TIME at, ‸id BIGINT) WITH (connector = 'rate')"),
    ("bad-sql", "CREATE STREAM a ‸AS SELECT * FROM orders"),
    ("bad-sql", "CREATE STREAM ‸a (id BIGINT, PRIMARY KEY (id) LATEST BY id) WITH (connector = 'kafka', topic = 'a')"),
    ("bad-sql", "CREATE STREAM a (id BIGINT)‸; SET state = 'memory'"),
    ("bad-sql", "CREATE SINK s WITH (connector ‸'console')"),
    ("bad-option", "CREATE SINK s FROM orders WITH (connector = 'console', delivery = '‸twice')"),
    ("unknown-input", "INSERT INTO ‸nowhere FROM orders"),
    ("unknown-input", "CREATE SINK s WITH (connector = 'console'); INSERT INTO s FROM ‸nothing"),
    ("duplicate-name", "CREATE SINK s FROM orders WITH (connector = 'console'); INSERT INTO ‸s FROM payments"),
    ("no-source", "CREATE SINK ‸s WITH (connector = 'console')"),
    ("bad-sql", "CREATE SINK s WITH (connector = 'console'); INSERT INTO s ‸VALUES (1)"),
    ("bad-sql", "CREATE SINK s WITH (connector = 'console'); INSERT INTO s ‸(id) SELECT id FROM orders"),
    ("unsupported", "INSERT OVERWRITE ‸s FROM orders"),
    # functions
    ("bad-function", "CREATE FUNCTION f AS PYTHON ‸'nothing'"),
    ("duplicate-name", "CREATE FUNCTION ‸upper AS PYTHON 'm:f'"),
    ("bad-sql", "CREATE FUNCTION f AS ‸JAVA 'm:f'"),
    ("bad-function", "CREATE FUNCTION f AS PYTHON 'm:f'; " + V + "SELECT 1 + ‸f(id) AS x FROM orders"),
    # SELECT
    ("bad-sql", V + "‸SELEKT 1"),
    ("bad-sql", V + "SELECT id‸"),
    ("bad-sql", V + "SELECT id FROM ‸'orders'"),
    ("bad-expression", V + "SELECT ‸id + 1 FROM orders"),
    ("bad-expression", V + "SELECT id + ‸FROM orders"),
    ("bad-expression", V + "SELECT id FROM orders WHERE (id > 1‸"),
    ("bad-expression", V + "SELECT id FROM orders WHERE id >\n  ‸AND amount > 1"),
    ("duplicate-name", V + "SELECT id, ‸id FROM orders"),
    ("duplicate-name", V + "SELECT id AS a, amount AS ‸A FROM orders"),
    ("bad-sql", V + "SELECT id, ‸* FROM orders"),
    ("unknown-column", V + "SELECT id,\n  amount * ‸prize AS x FROM orders" + END),
    ("unknown-column", V + "SELECT * FROM orders o WHERE o.‸idd > 1" + END),
    ("unknown-function", V + "SELECT ‸frobnicate(id) AS x FROM orders" + END),
    ("type-mismatch", V + "SELECT * FROM orders WHERE ‸amount" + END),
    ("unknown-input", V + "SELECT * FROM ‸nothing" + END),
    ("unsupported", V + "SELECT * FROM orders ‸ORDER BY id"),
    ("unsupported", V + "SELECT * FROM orders LIMIT ‸10"),
    ("bad-sql", V + "SELECT * FROM orders UNION ‸SELECT * FROM payments"),
    ("unsupported", V + "SELECT * FROM orders ‸INTERSECT SELECT * FROM payments"),
    ("unsupported", V + "SELECT * FROM orders LATERAL VIEW ‸inline(tags) AS tag"),
    ("bad-option", V + "SELECT * FROM orders LIMIT ‸0 BY user"),
    ("unknown-operator", V + "TRANSFORM orders USING ‸explod"),
    ("unknown-option", V + "TRANSFORM orders USING limit WITH (rows = 1, by = user, ‸byy = 1)"),
    ("bad-expression", V + "SELECT count(*) ‸OVER (PARTITION BY id) AS n FROM orders"),
    ("bad-expression", V + "SELECT * FROM orders WHERE id IN (‸SELECT order_id FROM payments)"),
    # groups
    ("bad-sql", V + "‸SELECT * FROM orders GROUP BY user"),
    ("bad-sql", V + "‸SELECT user FROM orders GROUP BY user"),
    ("bad-sql", V + "SELECT id FROM orders ‸HAVING id > 1"),
    ("bad-expression", V + "SELECT count(*) AS n FROM orders GROUP BY ‸lower(user)"),
    ("bad-expression", V + "SELECT user, count(*) AS n FROM orders GROUP BY user HAVING ‸sum(amount) > 1"),
    ("bad-sql", V + "SELECT user, count(*) AS n FROM orders GROUP BY ‸3, user"),
    ("unsupported", V + "SELECT user, count(*) AS n FROM orders GROUP BY ‸ROLLUP (user)"),
    ("not-grouped", V + "SELECT user, ‸amount AS a, count(*) AS n FROM orders GROUP BY user" + END),
    ("bad-sql", V + "SELECT * FROM orders ‸EMIT CHANGES"),
    ("bad-sql", V + "SELECT count(*) AS n FROM orders EMIT ‸SOMETIMES"),
    ("duplicate-name", V + "SELECT count(*) AS n FROM orders EMIT CHANGES ‸EMIT FINAL"),
    ("bad-sql", V + "SELECT count(*) AS n FROM orders GROUP BY tumble(at, '1 s'), ‸hop(at, '2 s', '1 s')"),
    ("bad-sql", V + "SELECT count(*) AS n FROM orders GROUP BY ‸tumble(at)"),
    ("bad-sql", V + "SELECT count(*) AS n FROM orders GROUP BY tumble(at, '1 s', ‸'2 s')"),
    ("bad-option", V + "SELECT count(*) AS n FROM orders GROUP BY tumble(at, '‸soon')"),
    ("unsupported", V + "SELECT count(*) AS n FROM payments GROUP BY tumble(‸order_id, '1 s')" + END),
    ("unknown-column", V + "SELECT ‸window, count(*) AS n FROM orders GROUP BY window(at, '1 s')"),
    # joins
    ("bad-sql", V + "SELECT * FROM orders‸, payments"),
    ("bad-sql", V + "SELECT * FROM orders ‸CROSS JOIN payments"),
    ("bad-sql", V + "SELECT * FROM orders LEFT ‸SEMI JOIN payments USING (id)"),
    ("bad-sql", V + "SELECT * FROM orders JOIN payments‸"),
    ("unsupported", V + "SELECT * FROM orders JOIN payments ON ‸orders.id > payments.paid"),
    ("unsupported", V + "SELECT * FROM orders o JOIN payments p ‸ON o.id = p.order_id AND p.paid_at >= o.at"),
    ("unsupported", V + "SELECT * FROM orders o JOIN payments p ON o.id = p.order_id AND ‸o.amount > 3"),
    ("bad-sql", V + "SELECT * FROM orders o LEFT ‸payments"),
    (
        "unsupported",
        V + "SELECT * FROM orders o JOIN payments p ON o.id = p.order_id AND ‸p.paid BETWEEN o.at AND o.at"
        " + INTERVAL 1 HOUR" + END,
    ),
    # dead letters
    ("bad-sql", V + "SELECT * FROM orders DEAD ‸TO s"),
    ("bad-sql", V + "SELECT * FROM orders DEAD LETTERS ‸;"),
    ("bad-sql", V + "SELECT * FROM (SELECT * FROM orders WHERE id > 1 ‸DEAD LETTERS TO s) AS o"),
    ("duplicate-name", V + "SELECT id FROM orders DEAD LETTERS TO s ‸DEAD LETTERS TO s"),
    ("unknown-input", V + "SELECT id FROM orders DEAD LETTERS TO ‸nowhere"),
    ("duplicate-name", V + "SELECT id FROM orders DEAD LETTERS TO ‸s" + END),
    ("bad-sql", "CREATE SINK s WITH (connector = 'console'); INSERT INTO s FROM orders ‸DEAD LETTERS TO s"),
    (
        "unsupported",
        "CREATE TABLE t (id BIGINT) WITH (connector = 'files', path = 'x', format = 'json') ‸DEAD LETTERS TO s",
    ),
    # the text itself
    ("bad-sql", V + "SELECT ‸'abc FROM orders"),
    ("bad-sql", "‸/* never closed"),
    ("bad-sql", V + "SELECT id FROM orders ‸)"),
    ("bad-sql", V + "SELECT id FROM orders WITH (a = {b: 1‸"),
]


@pytest.mark.parametrize(("code", "marked"), REFUSED, ids=[f"{i}-{c}" for i, (c, _) in enumerate(REFUSED)])
def test_what_cannot_be_read_is_a_problem_at_its_place(code: str, marked: str) -> None:
    at = STREAMS + marked
    offset = at.index("‸")
    text = at.replace("‸", "")
    line, column = text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)

    found = [(p.code, p.location.line, p.location.column) for p in problems_of(text)]

    assert (code, line, column) in found
    assert all(p.location.file == "x.sql" for p in problems_of(text))


def test_there_are_at_least_sixty_of_them() -> None:
    assert len(REFUSED) >= 60


def test_reading_goes_on_behind_a_mistake() -> None:
    text = (
        STREAMS
        + "CREATE VIEW a AS SELEKT;\nCREATE VIEW b AS SELECT FROM;\nCREATE VIEW c AS SELECT nope FROM orders"
        + ("; CREATE SINK s WITH (connector = 'console'); INSERT INTO s FROM c")
    )
    assert [(p.code, p.location.line) for p in problems_of(text)] == [
        ("bad-sql", 5),
        ("bad-expression", 6),
        ("unknown-column", 7),
    ]
