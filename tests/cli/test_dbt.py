"""`sqb dbt` with a dbt that does what tests say: what is run, what is remembered, what is said. No Java anywhere."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import sqb
from sqb import errors
from support.dbt_shop import FILES, SQB, Shop, new_shop

CURRENT = ("skip", "no change")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    """A project that was built once; tests that change it put it back and build it again."""
    shop = new_shop(tmp_path_factory.mktemp("shop"))
    shop.commit_source(1)
    done = shop.dbt("build")
    assert done.code == 0, done.out + done.err
    return shop


@pytest.fixture
def shop(built: Shop) -> Iterator[Shop]:
    built.forget_calls()
    yield built
    built.write(FILES)
    assert built.dbt("build").code == 0


def test_the_first_build_runs_everything_and_the_second_nothing(tmp_path: Path) -> None:
    shop = new_shop(tmp_path)
    shop.commit_source(1)
    before = shop.dbt_files()
    first = shop.dbt("build")
    assert first.code == 0, first.err
    assert shop.verbs == ["ls", "build"]
    # All that is selected runs: the user's own selection, here none, is what dbt gets.
    assert "--select" not in shop.calls[-1]
    assert "SUCCESS model.shop.totals" in first.out
    assert "dbt: 5 ran, 0 current, 0 failed" in first.out
    shop.forget_calls()
    again = shop.dbt("build")
    assert (again.code, shop.calls) == (0, [])
    assert again.out.splitlines() == [
        "dbt (5 selected resources)",
        "  selected by dbt selector: 5 from dbt selector",
        "  planned models: 0 run, 3 current, 0 blocked",
        "  planned non-model dbt work: 0 (2 current)",
        "  skipped: all planned dbt models are current",
        "",
        "  Model plan",
        "    Current (3)",
        "      model.shop.other    no change",
        "      model.shop.stg      no change",
        "      model.shop.totals   no change",
    ]
    assert shop.dbt_files() == before


def test_an_edit_runs_the_model_and_what_reads_it(shop: Shop) -> None:
    shop.write({"dbt/models/staging/stg.sql": "select id, 2 as two from {{ ref('raw') }}"})
    plan = shop.plan()
    assert plan["stg"] == ("run", "checksum changed")
    assert plan["totals"] == ("run", "upstream_changed")
    assert plan["test.shop.no_null"] == ("run", "upstream_changed")
    assert plan["other"] == plan["seed.shop.raw"] == CURRENT
    shop.forget_calls()
    done = shop.dbt("build")
    assert done.code == 0, done.err
    selection = shop.calls[-1][shop.calls[-1].index("--select") + 1 :]
    assert selection[:3] == [
        "fqn:shop.staging.stg,resource_type:model",
        "fqn:shop.totals,resource_type:model",
        "fqn:shop.no_null,resource_type:test",
    ]
    assert selection[3:5] == ["--indirect-selection", "empty"]
    assert set(shop.plan().values()) == {CURRENT}


def test_a_changed_macro_runs_those_who_call_it(shop: Shop) -> None:
    shop.write({"dbt/macros/half.sql": "{% macro half() %}id / 2.0{% endmacro %}"})
    plan = shop.plan()
    assert plan["totals"] == ("run", "checksum changed")
    assert plan["stg"] == CURRENT


def test_a_comment_that_compiles_to_the_same_is_no_change(shop: Shop) -> None:
    shop.write({"dbt/models/totals.sql": "select  {{ half() }} AS half /* half */ from {{ ref('stg') }} -- so"})
    shop.write({"dbt/macros/half.sql": "{% macro half() %}id  /  2{% endmacro %}"})
    assert set(shop.plan().values()) == {CURRENT}
    assert shop.dbt("build").code == 0
    assert "build" not in shop.verbs
    shop.forget_calls()
    # It is remembered: nobody compiles it again.
    assert set(shop.plan().values()) == {CURRENT}
    assert shop.verbs == []


def test_new_rows_of_a_source_run_its_readers(shop: Shop) -> None:
    shop.commit_source(7)
    plan = shop.plan()
    assert plan["other"] == ("run", "source_freshness_changed")
    assert plan["stg"] == CURRENT
    assert shop.verbs == []


def test_a_relation_that_was_dropped_is_made_again(shop: Shop) -> None:
    shop.catalog().drop_table(("analytics", "totals"))
    plan = shop.plan()
    assert plan["totals"] == ("run", "relation missing")
    assert plan["stg"] == CURRENT


def test_a_full_refresh_runs_everything(shop: Shop) -> None:
    plan = shop.plan("--full-refresh")
    assert {plan["stg"], plan["totals"], plan["other"]} == {("run", "full refresh")}
    assert shop.dbt("build", "--full-refresh").code == 0
    assert "--full-refresh" in shop.calls[-1]


def test_dbt_selects(shop: Shop) -> None:
    assert set(shop.plan("--select", "stg+")) == {"stg", "totals", "test.shop.no_null"}
    assert set(shop.plan("-s", "stg", "other", "--exclude", "other")) == {"stg"}
    call = shop.calls[-1]
    assert call[call.index("--select") :][:3] == ["--select", "stg", "other"]
    shop.forget_calls()
    # What dbt said of a selection is remembered.
    assert set(shop.plan("--select", "stg+")) == {"stg", "totals", "test.shop.no_null"}
    assert shop.verbs == []
    nothing = shop.dbt("build", "--select", "nosuch")
    assert nothing.code == 2
    assert "error[SQB-Y008]" in nothing.err


def test_run_runs_models_alone_and_the_tests_are_left(shop: Shop) -> None:
    shop.write({"dbt/models/totals.sql": "select {{ half() }} as half, 1 as one from {{ ref('stg') }}"})
    done = shop.dbt("run")
    assert done.code == 0, done.err
    assert shop.verbs[0] == "ls" and shop.verbs[-1] == "run"
    plan = shop.plan()
    assert plan["totals"] == CURRENT
    assert plan["test.shop.no_null"][0] == "run"


def test_what_fails_is_left_to_be_done(shop: Shop) -> None:
    shop.write({"dbt/models/staging/stg.sql": "select id, 3 as three from {{ ref('raw') }} -- FAIL"})
    shop.commit_source(8)
    done = shop.dbt("build", "--json")
    assert done.code == 1
    assert done.statuses["stg"] == "failed"
    assert done.statuses["totals"] == "skipped"
    assert done.statuses["other"] == "ok"
    assert "ERROR model.shop.stg" in done.err
    plan = shop.plan()
    assert plan["other"] == CURRENT
    assert plan["stg"][0] == plan["totals"][0] == "run"


def test_a_failed_test_runs_again(shop: Shop) -> None:
    shop.write({"dbt/tests/no_null.sql": "select * from {{ ref('totals') }} where half is null -- FAIL\n and true"})
    assert shop.dbt("build").code == 1
    assert shop.plan()["test.shop.no_null"][0] == "run"
    assert shop.plan()["totals"] == CURRENT
    assert shop.dbt("build").code == 1


def test_replay_on_change_full_adds_full_refresh(shop: Shop) -> None:
    settings = (shop.root / "sqlbuild_project.toml").read_text()
    shop.write({"sqlbuild_project.toml": settings + 'replay_on_change = "full"\n'})
    try:
        shop.write({"dbt/models/totals.sql": "select {{ half() }} as half, 2 as two from {{ ref('stg') }}"})
        assert shop.dbt("build").code == 0
        assert "--full-refresh" in shop.calls[-1]
    finally:
        shop.write({"sqlbuild_project.toml": settings})


def test_flags_are_handed_on(shop: Shop) -> None:
    shop.commit_source(9)
    more = ("--target", "dev", "--vars", "{day: 1}", "--threads", "3", "--fail-fast", "--", "--warn-error")
    assert shop.dbt("build", *more).code == 0
    call = shop.calls[-1]
    assert call[call.index("--target") + 1] == "dev"
    assert call[call.index("--vars") + 1] == "{day: 1}"
    assert call[call.index("--threads") + 1] == "3"
    assert {"--fail-fast", "--warn-error"} < set(call)
    assert all(environment == "--no-use-colors" for environment in call if "colors" in environment)


@pytest.mark.parametrize("word", ["--sample=1", "--target-path=x", "--defer", "--select", "--empty"])
def test_options_that_would_make_it_untrue_are_refused(shop: Shop, word: str) -> None:
    done = shop.dbt("build", "--", word, "x")
    assert done.code == 2
    assert "error[SQB-Y014]" in done.err
    assert shop.verbs == []


# --- what dbt users type ----------------------------------------------------------------------------------------------


def test_test_runs_the_selected_tests_whether_they_passed_or_not(shop: Shop) -> None:
    done = shop.dbt("test")
    assert done.code == 0, done.err
    assert shop.verbs == ["test"]
    assert "      test.shop.no_null   requested" in done.out.splitlines()
    assert "PASS test.shop.no_null" in done.out and "model.shop" not in done.out.partition("PASS")[2]
    shop.write({"dbt/tests/no_null.sql": "select * from {{ ref('totals') }} where half is null -- FAIL\n or true"})
    assert shop.dbt("test", "-s", "totals").code == 1
    # A test that failed is left for the next build, one that passes is recorded.
    assert shop.plan()["test.shop.no_null"][0] == "run"
    shop.write({"dbt/tests/no_null.sql": "select * from {{ ref('totals') }} where half is null or false"})
    assert shop.dbt("test").code == 0
    assert set(shop.plan().values()) == {CURRENT}


def test_seed_loads_the_seeds_that_changed(shop: Shop) -> None:
    done = shop.dbt("seed")
    assert (done.code, shop.verbs) == (0, [])
    assert "  skipped: all planned dbt seeds are current" in done.out.splitlines()
    shop.write({"dbt/seeds/raw.csv": "id\n1\n2\n"})
    assert shop.dbt("seed").code == 0
    assert shop.verbs[-1] == "seed"
    plan = shop.plan()
    assert plan["seed.shop.raw"] == CURRENT and plan["stg"] == ("run", "upstream_changed")
    assert shop.dbt("seed", "--full-refresh").code == 0
    assert "--full-refresh" in shop.calls[-1]


def test_snapshot_takes_those_whose_inputs_changed(tmp_path: Path) -> None:
    shop = new_shop(tmp_path, {**FILES, "dbt/snapshots/was.sql": "select * from {{ ref('totals') }}"})
    shop.commit_source(1)
    assert shop.dbt("build").code == 0
    shop.forget_calls()
    assert (shop.dbt("snapshot").code, shop.verbs) == (0, [])
    shop.write({"dbt/models/totals.sql": "select {{ half() }} as half, 5 as five from {{ ref('stg') }}"})
    assert shop.dbt("run").code == 0
    assert shop.dbt("snapshot").code == 0
    assert shop.verbs[-1] == "snapshot" and "run" in shop.verbs
    assert shop.plan()["snapshot.shop.was"] == CURRENT


def test_compile_is_handed_on_and_says_where_it_went(shop: Shop) -> None:
    done = shop.dbt("compile", "-s", "totals", "--", "--no-introspect")
    assert done.code == 0, done.err
    assert done.out.splitlines()[-1].startswith("compiled SQL: ")
    assert shop.calls[-1][0] == "compile" and "--no-introspect" in shop.calls[-1]
    assert shop.dbt("compile", "--json").document["dbt"]["exit_code"] == 0


def test_what_was_built_empty_is_built_again(shop: Shop) -> None:
    shop.write({"dbt/models/totals.sql": "select {{ half() }} as half, 6 as six from {{ ref('stg') }}"})
    done = shop.dbt("build", "--empty")
    assert done.code == 0, done.err
    assert "--empty" in shop.calls[-1]
    entry = shop.dbt("plan", "--json").document["nodes"]
    (totals,) = [n for n in entry if n["name"] == "model.shop.totals"]
    assert (totals["action"], totals["reason"]) == ("run", "checksum changed")
    assert totals["detail"] == "it was built with --empty"
    # Tests that passed on no rows have not passed.
    assert shop.plan()["test.shop.no_null"][0] == "run" and shop.plan()["other"] == CURRENT
    assert shop.dbt("build").code == 0
    assert set(shop.plan().values()) == {CURRENT}


def test_an_empty_build_of_what_was_current_does_not_pass_for_current(shop: Shop) -> None:
    """Also when it was killed, and with the definition that the table had before."""
    assert shop.dbt("run", "--empty", "--full-refresh", FAKE_DBT_MODE="lost").code == 1
    plan = shop.plan()
    assert {plan["stg"], plan["totals"], plan["other"]} == {("run", "checksum changed")}
    assert shop.dbt("build").code == 0


def test_what_is_deferred_is_read_where_the_state_has_it(tmp_path: Path) -> None:
    shop = new_shop(tmp_path)
    shop.commit_source(1)
    assert shop.dbt("build").code == 0
    prod = shop.root / "prod"
    prod.mkdir()
    (prod / "manifest.json").write_bytes((shop.root / ".sqb/dbt/target/manifest.json").read_bytes())
    dev = {"FAKE_DBT_SCHEMA": "dev"}
    deferred = ("--target", "dev", "--defer", "--state", "prod", "-s", "totals")
    shop.forget_calls()
    first = shop.dbt("build", *deferred, **dev)
    assert first.code == 0, first.err
    call = shop.calls[-1]
    assert "--defer" in call and call[call.index("--state") + 1] == str(prod)
    again = shop.dbt("build", *deferred, "--json", **dev)
    assert set(again.statuses.values()) == {"skipped"}, again.out
    # What it reads there has other rows.
    shop.write({"dbt/seeds/raw.csv": "id\n1\n3\n"})
    assert shop.dbt("build").code == 0
    assert shop.dbt("plan", *deferred, "--json", **dev).actions["totals"] == ("run", "upstream_changed")
    # Without --defer it is what is here that counts.
    here = shop.dbt("plan", "--target", "dev", "-s", "totals", "--json", **dev).actions
    assert here["totals"] == ("run", "upstream_changed")
    # With --favor-state dbt reads elsewhere what it is not told to run: nothing selected is left out.
    assert shop.dbt("build", *deferred, **dev).code == 0
    favored = shop.dbt("plan", *deferred, "--favor-state", "--json", **dev).actions
    assert favored["totals"] == ("run", "requested")
    wrong = shop.dbt("build", "--target", "dev", "--defer", **dev)
    assert wrong.code == 2 and "--defer needs the state" in wrong.err
    assert shop.dbt("build", "--target", "dev", "--defer", "--state", "nosuch", **dev).code == 2


def test_what_a_plan_compiled_a_build_does_not_compile_again(shop: Shop) -> None:
    shop.write({"dbt/macros/half.sql": "{% macro half() %}id / 4{% endmacro %}"})
    assert shop.plan()["totals"] == ("run", "checksum changed")
    assert shop.verbs == ["ls", "compile"]
    shop.forget_calls()
    assert shop.dbt("build").code == 0
    assert shop.verbs == ["build"]
    # Another text of the macro is another one to compile.
    shop.write({"dbt/macros/half.sql": "{% macro half() %}id / 5{% endmacro %}"})
    shop.forget_calls()
    shop.plan()
    assert shop.verbs == ["ls", "compile"]


def test_what_changed_is_shown_with_v(shop: Shop) -> None:
    shop.write({"dbt/models/staging/stg.sql": "select id, 7 as seven from {{ ref('raw') }}"})
    shop.write({"dbt/macros/half.sql": "{% macro half() %}id / 3{% endmacro %}"})
    lines = shop.dbt("plan", "-v").out.splitlines()
    assert "        -select id from {{ ref('raw') }}" in lines
    assert "        +select id, 7 as seven from {{ ref('raw') }}" in lines
    assert not any("seven" in line for line in shop.dbt("plan").out.splitlines())
    # The file of a model whose macro changed is as it was: its SQL is not.
    shop.write({"dbt/models/staging/stg.sql": FILES["dbt/models/staging/stg.sql"]})
    shown = shop.dbt("plan", "-v", "--json").document["nodes"]
    (diff,) = [n["diff"] for n in shown if n["name"] == "model.shop.totals"]
    assert "-select id / 2 as half" in diff and "+select id / 3 as half" in diff


def test_counts_add_up_to_what_is_selected(shop: Shop) -> None:
    shop.write({"dbt/models/staging/stg.sql": "select id, 8 as eight from {{ ref('raw') }}"})
    shop.write({"dbt/models/thin.sql": "{{ config(materialized='ephemeral') }}select 1 as id"})
    try:
        lines = [line.strip() for line in shop.dbt("plan").out.splitlines()]
        assert lines[:6] == [
            "dbt (6 selected resources)",
            "selected by dbt selector: 6 from dbt selector",
            "planned models: 2 run, 1 current, 0 blocked",
            "planned non-model dbt work: 1 (1 current)",
            "not run by dbt build: 1",
            "",
        ]
        assert "not run by dbt run: 3" in shop.dbt("run").out
    finally:
        (shop.root / "dbt/models/thin.sql").unlink()


def test_an_interrupt_reaches_dbt_and_what_succeeded_is_kept(shop: Shop) -> None:
    shop.write({"dbt/models/staging/stg.sql": "select id, 4 as four from {{ ref('raw') }}"})
    environment = shop.whole_environment(FAKE_DBT_MODE="slow")
    running = subprocess.Popen(
        [str(SQB), "dbt", "build", "-s", "stg"],
        cwd=shop.root,
        env=environment,
        stdout=subprocess.PIPE,
        encoding="utf-8",
    )
    assert running.stdout is not None
    for line in running.stdout:
        if line.startswith("SUCCESS model.shop.stg"):
            break
    time.sleep(0.3)
    os.kill(running.pid, signal.SIGINT)
    rest = running.stdout.read()
    assert running.wait(30) == 1
    assert "CANCELLED" in rest
    plan = shop.plan()
    assert plan["stg"] == CURRENT
    assert plan["totals"][0] == "run"


# --- beside sqb models ------------------------------------------------------------------------------------------------


BESIDE = {
    **FILES,
    "dbt/sources.json": '{"raw_data.events": {}, "seeds.countries": {}}',
    "dbt/models/lands.sql": "select code from {{ source('seeds', 'countries') }}",
    "seeds/countries.csv": "code\nde\n",
    "models/marts/report.sql": 'SELECT half FROM __dbt_ref("totals")',
    "models/marts/below.sql": "SELECT half FROM marts.report",
}


def test_what_dbt_reads_of_sqb_is_built_before_it(tmp_path: Path) -> None:
    shop = new_shop(tmp_path, BESIDE)
    shop.commit_source(1)
    planned = shop.dbt("plan")
    assert "run      marts.report     (table, backfill)  First run: when dbt has built model.shop.totals" in planned.out
    # Nothing below it can be built without Java, so this is as far as a test without it goes.
    first = shop.dbt("build", "--select", "lands", "--json")
    assert first.code == 0, first.err
    assert first.statuses == {"lands": "ok", "seeds.countries": "ok"}
    assert set(shop.plan("--select", "lands").values()) == {CURRENT, ("skip", "Normal")}
    shop.write({"seeds/countries.csv": "code\nde\nfr\n"})
    plan = shop.plan("--select", "lands")
    assert plan["lands"] == ("run", "source_freshness_changed")
    assert plan["seeds.countries"] == ("run", "Query changed")
    again = shop.dbt("build", "--select", "lands", "--json")
    assert again.statuses == {"lands": "ok", "seeds.countries": "ok"}
    assert again.document["dbt"]["commands"] == 1


def test_in_a_virtual_environment_what_dbt_reads_is_built_before_it_too(tmp_path: Path) -> None:
    shop = new_shop(tmp_path, BESIDE)
    settings = (shop.root / "sqlbuild_project.toml").read_text()
    shop.write({"sqlbuild_project.toml": f'{settings}\n[virtual]\nenabled = true\nunsuffixed_virtual_env = "dev"\n'})
    shop.commit_source(1)
    planned = shop.dbt("plan", "--json").actions
    assert planned["marts.report"] == planned["seeds.countries"] == ("run", "First run")
    first = shop.dbt("build", "--select", "lands", "--json")
    assert first.code == 0, first.err
    assert first.statuses == {"lands": "ok", "seeds.countries": "ok"}
    assert shop.plan("--select", "lands")["lands"] == CURRENT


def test_what_reads_a_model_that_failed_is_not_built(tmp_path: Path) -> None:
    shop = new_shop(tmp_path, {**BESIDE, "dbt/models/totals.sql": "select 1 as half -- FAIL"})
    shop.commit_source(1)
    done = shop.dbt("build")
    assert done.code == 1
    assert "[SKIP] marts.report (model.shop.totals failed)" in done.out.splitlines()
    assert "[SKIP] marts.below (model.shop.totals failed)" in done.out.splitlines()
    document = shop.dbt("build", "--json").document
    assert {n["name"]: n["status"] for n in document["nodes"]}["marts.report"] == "blocked"


def test_a_circle_across_the_border(tmp_path: Path) -> None:
    circle = {
        **FILES,
        "dbt/sources.json": '{"raw_data.events": {}, "marts.report": {}}',
        "dbt/models/totals.sql": "select * from {{ source('marts', 'report') }}",
        "models/marts/report.sql": 'SELECT half FROM __dbt_ref("totals")',
    }
    done = new_shop(tmp_path, circle).dbt("plan")
    assert done.code == 2
    assert "error[SQB-Y010]" in done.err and "marts.report" in done.err


# --- when something is not there --------------------------------------------------------------------------------------


def test_no_dbt_section(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.write({"sqlbuild_project.toml": 'name = "shop"\n'})
    done = shop.dbt("plan")
    assert done.code == 2
    assert "error[SQB-Y001]" in done.err and "[dbt]" in done.err


def test_dbt_is_not_installed(tmp_path: Path) -> None:
    done = new_shop(tmp_path, dbt='command = "no-such-dbt"\n').dbt("build")
    assert done.code == 1
    assert 'error[SQB-Y003]: the dbt command "no-such-dbt" was not found' in done.err
    assert "hint: install dbt" in done.err


def test_no_dbt_project(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.write({"sqlbuild_project.toml": 'name = "shop"\n[dbt]\nproject_dir = "elsewhere"\n'})
    done = shop.dbt("build")
    assert done.code == 2
    assert "error[SQB-Y002]: sqlbuild_project.toml:3:15" in done.err


def test_no_profile(tmp_path: Path) -> None:
    done = new_shop(tmp_path, FAKE_DBT_MODE="no-profile").dbt("build")
    assert done.code == 1
    assert "error[SQB-Y007]" in done.err and "Could not find profile named 'shop'" in done.err
    shop = new_shop(tmp_path / "b", dbt='profiles_dir = "profiles"\n')
    assert "error[SQB-Y007]" in shop.dbt("build").err


def test_a_manifest_of_another_version(tmp_path: Path) -> None:
    done = new_shop(tmp_path, FAKE_DBT_MODE="manifest-v13").dbt("plan")
    assert done.code == 1
    assert "error[SQB-Y005]" in done.err and "v13" in done.err


def test_an_old_dbt(tmp_path: Path) -> None:
    done = new_shop(tmp_path, FAKE_DBT_MODE="old").dbt("plan")
    assert done.code == 1
    assert "error[SQB-Y004]: dbt 1.6.9" in done.err


def test_what_dbt_says_of_a_wrong_project_is_shown_at_its_place(tmp_path: Path) -> None:
    shop = new_shop(tmp_path, {**FILES, "dbt/models/wrong.sql": "-- BROKEN\nselect {{ 1 }\n"})
    done = shop.dbt("build")
    assert done.code == 1
    assert "error[SQB-Y006]: dbt/models/wrong.sql:2:1: dbt ls failed: Compilation Error in model wrong" in done.err
    assert "  2 | select {{ 1 }" in done.err
    document = shop.dbt("build", "--json").document
    assert document["errors"][0]["file"] == "dbt/models/wrong.sql"


def test_a_dbt_that_tells_nothing(tmp_path: Path) -> None:
    shop = new_shop(tmp_path, FAKE_DBT_MODE="lost")
    shop.commit_source(1)
    done = shop.dbt("build")
    assert done.code == 1
    assert "error[SQB-Y011]" in done.err
    assert shop.plan()["stg"] == ("run", "first run")


def test_the_commands_are_methods_of_the_api(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    shop = new_shop(tmp_path)
    shop.commit_source(1)
    for name, value in shop.whole_environment().items():
        monkeypatch.setenv(name, value)
    project = sqb.Project(shop.root)
    assert project.dbt.plan()["summary"] == {"run": 5, "skip": 0, "blocked": 0}
    assert project.dbt.compile(select="stg")["dbt"]["exit_code"] == 0
    assert [n["status"] for n in project.dbt.seed()["nodes"]] == ["ok"]
    assert project.dbt.run(select=["stg", "other"])["summary"]["ran"] == 2
    built = project.dbt.build(threads=2, vars={"day": 1}, more="--quiet")
    assert built["dbt"]["command"] == "build" and built["summary"]["failed"] == 0
    assert {"--threads", "--quiet", "--vars", '{"day": 1}'} <= set(shop.calls[-1])
    assert project.dbt.test()["summary"]["ran"] == 1
    assert project.dbt.snapshot()["nodes"] == []
    # What dbt prints is in a file.
    assert capfd.readouterr() == ("", "")
    assert any("SUCCESS" in log.read_text() for log in (shop.root / ".sqb" / "logs").glob("dbt_*.log"))
    with pytest.raises(errors.SqbError, match="--project-dir is set by sqb"):
        project.dbt.build(more=["--project-dir", "elsewhere"])
