"""A goal becomes a mode and settings, each with its reason; what cannot be kept is said at its place."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from headrace import Flow
from headrace.check import check, load
from headrace.check.real_time import late_from
from headrace.cli.flows import explain as command
from headrace.compile.explain import explain, text
from headrace.compile.plan import Choice, Plan
from headrace.compile.planner import plan
from headrace.declare import flowfile, jsonfile
from headrace.declare.convert import FORMS, write
from headrace.declare.diff import diff
from headrace.declare.resolve import resolve
from headrace.errors import FlowError
from headrace.goal import Goal
from headrace.model import Delivery, Mode

SHORT = "goal: {latency: 20 ms, checkpoint: 1 second}"
"""Spark would be busy with nothing but checkpoints."""


def counts(goal: Any = None, *, emit: str = "changes", delivery: str | None = None, **spark: str) -> Flow:
    """Counts per key and window from a topic to a topic."""
    flow = Flow("counts", goal=goal, spark=spark)
    clicks = flow.source(
        "clicks", "kafka", topic="clicks", format="json", schema="k STRING, at TIMESTAMP", time={"column": "at"}
    )
    windows = {"tumbling": "10 seconds"}
    flow.step(
        "per_key", "aggregate", "clicks", {"by": "k", "window": windows, "compute": {"n": "count(*)"}, "emit": emit}
    )
    flow["per_key"].sink("out", "kafka", topic="out", key="k", delivery=delivery)
    assert clicks is not None
    return flow


def chosen(made: Plan) -> dict[str, Choice]:
    return {choice.what: choice for choice in made.choices}


@pytest.mark.parametrize(
    ("written", "means"),
    [
        ("latency", Goal(best="latency")),
        ({"latency": "best"}, Goal(best="latency")),
        ("throughput", Goal(best="throughput")),
        ({"throughput": "best"}, Goal(best="throughput")),
        ({"latency": "20 ms"}, Goal(latency=timedelta(milliseconds=20))),
        (
            {"latency": "best", "checkpoint": "10 seconds"},
            Goal(best="latency", checkpoint=timedelta(seconds=10)),
        ),
    ],
)
def test_a_goal_is_the_same_in_every_form(written: Any, means: Goal, tmp_path: Path) -> None:
    flow = counts(written).build()
    assert flow.goal == means
    for form, ending in FORMS.items():
        file = tmp_path / f"counts{ending}"
        file.write_text(write(flow, form))
        assert load(file).goal == means, file.read_text()
    assert resolve(jsonfile.read(jsonfile.write(flow))).flow == flow


def test_a_goal_that_says_nothing_or_two_things_is_refused_at_its_place() -> None:
    for given in (
        "goal: speed",
        "goal: {}",
        "goal: {latency: 20 ms, best: throughput}",
        "goal: {latency: soon}",
        SHORT,
    ):
        problems = resolve(flowfile.read(f"flow: a\n{given}\n")).problems
        assert [(p.code, p.location.line) for p in problems if p.location.line == 2], given


def test_a_goal_may_be_a_parameter() -> None:
    written = (
        "flow: a\nparameters:\n  quick: {type: string, default: 20 ms}\ngoal: {latency: '${param:quick}'}\n"
        "sources:\n  a: {kafka: a, format: text}\nsinks:\n  out: {from: a, kafka: {topic: out}}\n"
    )
    flow = resolve(flowfile.read(written)).flow
    assert flow.goal == Goal(latency=timedelta(milliseconds=20))
    assert write(flow, "yaml").count("${param:quick}") == 1


def test_diff_tells_of_a_goal() -> None:
    (change,) = diff(counts().build(), counts({"latency": "20 ms"}).build())
    assert (change.option, change.new) == ("goal.latency", "20 milliseconds")


@pytest.mark.parametrize(
    ("goal", "mode"),
    [
        (None, Mode.MICRO_BATCH),
        ("throughput", Mode.MICRO_BATCH),
        ("latency", Mode.REAL_TIME),
        ({"latency": "20 ms"}, Mode.REAL_TIME),
        ({"latency": "5 seconds"}, Mode.MICRO_BATCH),
    ],
)
def test_the_mode_follows_from_the_goal(goal: Any, mode: Mode) -> None:
    made = plan(counts(goal).build())
    assert made.mode is mode
    assert chosen(made)["mode"].value == str(mode)
    assert all(choice.why for choice in made.choices)


def test_what_is_asked_for_goes_over_the_goal() -> None:
    assert plan(counts("latency").build(), mode=Mode.MICRO_BATCH).mode is Mode.MICRO_BATCH
    assert plan(counts().build(), mode=Mode.REAL_TIME).mode is Mode.REAL_TIME
    until_done = plan(counts("latency").build(), until_done=True)
    assert until_done.mode is Mode.MICRO_BATCH
    assert "--until-done" in chosen(until_done)["mode"].why


def test_a_flow_that_cannot_run_in_real_time_says_which_step_and_why() -> None:
    flow = counts({"latency": "20 ms"}, emit="final")
    (problem,) = check(flow.declared()).errors
    assert (problem.code, problem.step) == ("unsupported", "per_key")
    assert "emit: changes" in problem.hint
    with pytest.raises(FlowError, match="per_key"):
        plan(counts(emit="final").build(), mode=Mode.REAL_TIME)
    best = plan(counts("latency", emit="final").build())
    assert best.mode is Mode.MICRO_BATCH
    assert chosen(best)["in the way of less latency"].value == "per_key"


def test_a_sink_that_asks_for_exactly_once_is_not_written_in_real_time() -> None:
    (problem,) = check(counts({"latency": "20 ms"}, delivery="exactly-once").declared()).errors
    assert (problem.step, problem.code) == ("out", "unsupported")
    assert plan(counts("latency", delivery="exactly-once").build()).mode is Mode.MICRO_BATCH


@pytest.mark.parametrize(
    ("steps", "step"),
    [
        ("once: {from: clicks, distinct: {by: k, within: 1 minute}}", "once"),
        ("first: {from: clicks, limit: {rows: 1, by: k}}", "first"),
        ("both: {from: [clicks, clicks], union: {}}", "both"),
    ],
)
def test_operators_know_whether_they_run_in_real_time(steps: str, step: str) -> None:
    text = (
        "flow: a\ngoal: {latency: 20 ms}\nsources:\n"
        "  clicks: {kafka: clicks, format: json, schema: 'k STRING, at TIMESTAMP', time: at}\n"
        f"steps:\n  {steps}\nsinks:\n  out: {{from: {step}, kafka: {{topic: out}}}}\n"
    )
    (problem,) = check(resolve(flowfile.read(text))).errors
    assert (problem.step, problem.location.line) == (step, 6)
    assert "micro-batches keep 1 second" in problem.detail


@pytest.mark.parametrize("port", ["", ".late"])
def test_steps_in_a_circle_are_a_problem_and_not_followed_without_end(port: str) -> None:
    text = (
        "flow: a\ngoal: {latency: 20 ms}\nsources:\n"
        "  clicks: {kafka: clicks, format: json, schema: 'k STRING, at TIMESTAMP', time: at}\nsteps:\n"
        f"  one: {{from: two{port}, filter: k IS NOT NULL}}\n  two: {{from: one{port}, filter: k IS NOT NULL}}\n"
        f"sinks:\n  out: {{from: one{port}, kafka: {{topic: out}}}}\n  all: {{from: clicks, kafka: {{topic: all}}}}\n"
    )
    found = check(resolve(flowfile.read(text)))
    assert [p.step for p in found.errors if p.code == "cycle"] == ["one"]
    assert late_from(found.flow, found.flow.sinks[0]) is None


def test_sources_and_sinks_know_it_too() -> None:
    text = (
        "flow: a\ngoal: {latency: 20 ms}\nsources:\n  numbers: {rate: 10}\n"
        "sinks:\n  out: {from: numbers, files: {path: out}}\n"
    )
    found = check(resolve(flowfile.read(text))).errors
    assert [p.step for p in found] == ["numbers", "out"]


def test_real_time_promises_no_more_than_it_keeps() -> None:
    (promise,) = plan(counts({"latency": "best", "checkpoint": "10 seconds"}).build()).promises
    assert promise.delivery is Delivery.AT_LEAST_ONCE
    assert "10 seconds" in promise.because
    assert plan(counts().build()).promises[0].delivery is Delivery.EXACTLY_ONCE


def test_slots_are_the_tasks_of_all_stages_and_one_for_the_rest() -> None:
    flow = counts("latency").build()
    assert plan(flow, partitions={"clicks": 3}, cores=4).slots == 3 + 2 + 1
    assert plan(flow).slots is None, "the topics were not asked"
    wide = counts("latency", **{"spark.sql.shuffle.partitions": "4"}).build()
    assert plan(wide, partitions={"clicks": 3}).slots == 3 + 4 + 1


def test_each_sink_has_a_query_of_its_own_in_real_time_and_one_alone_keeps_its_name() -> None:
    flow = counts("latency")
    assert [q.name for q in plan(flow.build()).queries] == ["per_key"]
    flow["per_key"].filter("many", "n > 10").sink("alerts", "kafka", topic="alerts")
    made = plan(flow.build())
    assert [q.name for q in made.queries] == ["per_key.out", "per_key.alerts"]
    assert [q.trunk.step for q in made.queries] == ["per_key", "many"]
    assert [q.owned for q in made.queries] == [("clicks", "per_key"), ("many",)]


def test_late_records_and_dead_letters_belong_to_the_query_that_has_the_step() -> None:
    flow = Flow("counts", goal="latency")
    clicks = flow.source("clicks", "kafka", topic="c", format="json", schema="k STRING, at TIMESTAMP", time="at")
    windows = {"tumbling": "10 seconds"}
    given = {"by": "k", "window": windows, "compute": {"n": "count(*)"}, "emit": "changes", "late": "port"}
    flow.step("per_key", "aggregate", "clicks", given)
    flow["per_key"].sink("out", "kafka", topic="out", key="k")
    flow["per_key.late"].sink("late", "kafka", topic="late")
    flow["clicks.dead_letter"].sink("bad", "kafka", topic="bad")
    assert clicks is not None
    (query,) = plan(flow.build()).queries
    assert (query.sinks, query.asides, query.letters) == (("out",), ("late",), ("bad",))
    promises = {p.sink: p.delivery for p in plan(flow.build()).promises}
    assert promises["late"] is promises["bad"] is Delivery.EXACTLY_ONCE


def test_settings_are_chosen_for_the_mode_and_the_place() -> None:
    real, micro = plan(counts("latency").build()), plan(counts("throughput").build())
    cluster = plan(counts("latency").build(), local=False)
    wait, shuffle = "spark.shuffle.streaming.networkBufferMaxWaitTimeMs", "spark.shuffle.manager.incremental"
    assert [made.spark.get(shuffle) for made in (real, micro, cluster)] == ["headrace.HandOver", None, None]
    assert [made.spark.get(wait) for made in (real, micro, cluster)] == [None, None, "1"]
    assert ["java compiler" in chosen(made) for made in (real, micro)] == [False, True]
    assert ["through a socket to" in text(made) for made in (real, cluster)] == [False, True]
    assert (real.writing["linger.ms"], micro.writing["linger.ms"]) == ("0", "50")
    assert (real.reading["max.poll.records"], micro.reading["max.poll.records"]) == ("500", "5000")


@pytest.mark.parametrize(
    ("goal", "partitions", "wait"),
    [
        ("latency", None, 1),
        ("latency", 2, 1),
        ("latency", 6, 3),
        ("latency", 11, None),
        ({"latency": "5 ms"}, 2, 1),
        ({"latency": "5 ms"}, 4, None),
        ({"latency": "200 ms"}, 11, 20),
        ({"latency": "200 ms"}, 60, 30),
        ({"latency": "200 ms"}, 101, None),
    ],
)
def test_kafka_is_asked_as_seldom_as_the_goal_allows_and_not_by_more_than_the_cores_can_bear(
    goal: Any, partitions: int | None, wait: int | None
) -> None:
    made = plan(counts(goal).build(), cores=2, partitions=partitions and {"clicks": partitions})
    assert made.mode is Mode.REAL_TIME
    assert made.reading.get("fetch.max.wait.ms") == (wait and str(wait))
    assert made.reading["fetch.min.bytes"] == ("16384" if wait else "1")


def test_explain_marks_what_the_author_has_set() -> None:
    name = "spark.sql.shuffle.partitions"
    made = plan(counts("latency", **{name: "7"}).build(), project={"spark.driver.memory": "3g", name: "5"})
    said = {s["name"]: s for s in explain(made)["settings"]}
    assert (said[name]["value"], said[name]["by_author"], said[name]["why"]) == ("7", True, "set in the flow")
    assert said["spark.driver.memory"]["why"] == "set in headrace.toml"
    shown = text(made)
    assert f"{name} = 7 (yours)" in shown
    for what in ("checkpoint every", "pause at a checkpoint", "written again after a crash", "slots"):
        assert f"  {what} = " in shown


def test_explain_minds_the_project_and_the_master(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "counts.yaml").write_text(write(counts("latency").build(), "yaml"))
    (tmp_path / "headrace.toml").write_text(
        '[spark]\nmaster = "local[6]"\n[spark.settings]\n"spark.driver.memory" = "3g"\n'
    )
    monkeypatch.chdir(tmp_path)

    def told(*more: str) -> str:
        result = CliRunner().invoke(command, ["counts.yaml", *more])
        assert result.exit_code == 0, result.output
        return result.output

    assert "spark.driver.memory = 3g (yours): set in headrace.toml" in told()
    assert "spark.sql.shuffle.partitions = 3:" in told(), "half as many as there are cores"
    assert ["headrace.HandOver" in said for said in (told(), told("--master", "spark://h:7077"))] == [True, False]


def test_an_authors_collector_is_marked_as_such() -> None:
    name = "spark.driver.extraJavaOptions"
    assert not chosen(plan(counts().build()))["java collector"].by_author
    authors = chosen(plan(counts(**{name: "-XX:+UseZGC -Xss8m"}).build()))["java collector"]
    assert (authors.value, authors.by_author) == ("-XX:+UseZGC", True)
    projects = chosen(plan(counts().build(), project={name: "-XX:+UseSerialGC"}))["java collector"]
    assert projects.value == "-XX:+UseSerialGC"


def test_kafka_properties_of_the_author_go_over_ours_and_are_marked(tmp_path: Path) -> None:
    flow = counts("throughput")
    flow["per_key"].sink("slow", "kafka", topic="slow", key="k", client={"linger.ms": 200, "max.request.size": "9"})
    settings = chosen(plan(flow.build()))
    mine = settings["write linger.ms of slow"]
    assert (mine.value, mine.by_author, mine.why) == ("200", True, "set in the flow")
    assert settings["write linger.ms"].value == "50", "the other sink leaves it to us"
    for form, ending in FORMS.items():
        file = tmp_path / f"flow{ending}"
        file.write_text(write(flow.build(), form))
        assert load(file) == flow.build()
    alone = Flow("a")
    alone.source("in", "kafka", topic="in", format="text", client={"max.poll.records": 7}).sink("out", "console")
    settings = chosen(plan(alone.build()))
    assert (settings["read max.poll.records of in"].value, "read max.poll.records" in settings) == ("7", False)
    assert "read max.poll.records of in = 7 (yours)" in text(plan(alone.build()))


@pytest.mark.parametrize(
    ("side", "name", "says"),
    [
        ("sink", "acks", "promises"),
        ("sink", "transactional.id", "promises"),
        ("sink", "value.serializer", "promises"),
        ("source", "isolation.level", "promises"),
        ("source", "group.id", "promises"),
        ("source", "bootstrap.servers", "reached"),
        ("source", "sasl.jaas.config", "reached"),
        ("sink", "ssl.keystore.password", "reached"),
        ("sink", "lingerms", "no property"),
        ("source", "linger.ms", "no property"),
    ],
)
def test_properties_on_which_guarantees_or_secrets_hang_are_refused_at_their_place(
    side: str, name: str, says: str
) -> None:
    given = {"source": "", "sink": ""} | {side: f", client: {{{name}: hidden}}"}
    written = (
        f"flow: a\nsources:\n  in:\n    kafka: {{topic: in{given['source']}}}\n    format: text\n"
        f"sinks:\n  out:\n    from: in\n    kafka: {{topic: out{given['sink']}}}\n"
    )
    (problem,) = resolve(flowfile.read(written)).problems
    assert says in problem.message
    assert problem.location.line == (4 if side == "source" else 9)
    assert "hidden" not in problem.message + problem.hint


def test_throughput_takes_more_records_in_a_batch_and_the_author_any_number() -> None:
    what = "read records per batch"
    assert [plan(counts(goal).build()).per_batch for goal in (None, "throughput", "latency")] == [
        10**6,
        5 * 10**6,
        None,
    ]
    assert chosen(plan(counts("throughput").build()))[what].value == "5,000,000"
    assert what not in chosen(plan(counts("latency").build()))
    flow = Flow("a", goal="throughput")
    for name in ("a", "b", "c"):
        flow.source(name, "kafka", topic=name, format="text", **({"per_batch": "all"} if name == "b" else {}))
        flow[name].sink(f"out_{name}", "console")
    made = plan(flow.build())
    assert made.per_batch == 5 * 10**6 // 3
    assert (chosen(made)[f"{what} of b"].value, chosen(made)[f"{what} of b"].by_author) == ("all", True)


def test_explain_says_how_json_is_read_of_what_is_decoded_in_the_zone_of_the_run() -> None:
    flow = Flow("a", spark={"spark.sql.session.timeZone": "Europe/Berlin"})
    given = {"topic": "a", "format": "json", "schema": "k STRING, at STRING, big VARIANT"}
    time = {"column": "at", "format": "dd.MM.yyyy"}
    flow.source("clicks", "kafka", **given, metadata=["headers"], time=time).sink("all", "kafka", topic="out")
    flow["clicks"].select("few", "k", "at", "kafka_headers").sink("some", "kafka", topic="some")
    said = {part["name"]: part.get("coded") for part in explain(plan(flow.build()))["steps"]}
    assert said["clicks"] == 'by Spark, because "big" is variant'
    assert said["some"] == 'by Spark, because "at" is a time in Europe/Berlin, not UTC'
    few = Flow("a")
    few.source("clicks", "kafka", **given, metadata=["headers"], time=time).select("few", "k", "kafka_headers").sink(
        "some", "kafka", topic="some"
    )
    (source, *_) = explain(plan(few.build()))["steps"]
    assert source["coded"] == "k, at in one pass over the bytes; by Spark what is not plain"


def test_the_strictest_goal_of_a_flow_and_its_sinks_holds_for_the_run(tmp_path: Path) -> None:
    flow = counts("throughput")
    flow["per_key"].sink("quick", "kafka", topic="quick", key="k", goal={"latency": "20 ms"})
    flow["per_key"].sink("quicker", "kafka", topic="quicker", key="k", goal={"latency": "5 ms", "checkpoint": "9 s"})
    made = plan(flow.build())
    assert made.mode is Mode.REAL_TIME
    assert made.checkpoint == timedelta(seconds=9)
    assert chosen(made)["mode"].why.startswith('goal of sink "quicker": latency 5 milliseconds')
    for form, ending in FORMS.items():
        file = tmp_path / f"flow{ending}"
        file.write_text(write(flow.build(), form))
        assert load(file) == flow.build()


def test_a_goal_that_a_stricter_one_overrides_is_said_to_be_set_aside() -> None:
    flow = counts("throughput")
    flow["per_key"].sink("quick", "kafka", topic="quick", key="k", goal={"latency": "20 ms"})
    flow["per_key"].sink("slow", "kafka", topic="slow", key="k", goal={"latency": "5 seconds"})
    settings = chosen(plan(flow.build()))
    why = 'set aside: all of a run is in one mode, and goal of sink "quick", latency 20 milliseconds, is stricter'
    assert (settings["goal"].value, settings["goal"].why) == ("best throughput", why)
    assert settings['goal of sink "slow"'].why == why
    assert 'goal of sink "quick"' not in settings


def test_the_pause_at_a_checkpoint_follows_from_state_and_tasks_and_is_said_where_it_shows() -> None:
    what, every = "pause at a checkpoint", "checkpoint every"
    keyed = chosen(plan(counts({"latency": "20 ms", "checkpoint": "5 seconds"}).build(), cores=2))
    assert keyed[what].value == "0.2 to 0.6 s"
    assert keyed[every].why == (
        "asked for; so short that up to 12% of records wait for the pause in it: the 99th percentile shows it; "
        "not from 1 minute on"
    )
    wide = chosen(plan(counts("latency", **{"spark.sql.shuffle.partitions": "4"}).build()))
    assert wide[what].value == "0.5 to 0.9 s"
    assert "4 tasks with state" in wide[what].why
    assert "the 99th percentile shows it" in wide[every].why
    stateless = Flow("a", goal="latency")
    stateless.source("in", "kafka", topic="in", format="text").sink("out", "kafka", topic="out")
    settings = chosen(plan(stateless.build()))
    assert (settings[what].value, settings[every].value) == ("0.1 to 0.5 s", "1 minute")
    assert settings[every].why == "a pause of 0.1 to 0.5 s in each is met by at most 1 record in 100"


def test_a_goal_of_a_sink_that_cannot_be_met_is_said_at_the_step() -> None:
    flow = counts(emit="final")
    flow["per_key"].sink("quick", "kafka", topic="quick", key="k", goal={"latency": "20 ms"})
    with pytest.raises(FlowError, match="per_key"):
        plan(flow.build())
