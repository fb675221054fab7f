"""The document behind the pages, and the pages as text: what is in it, and what must not be."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from sqb.docs_site import write
from sqb.docs_site.describe_checks import list_results
from sqb.docs_site.describe_nodes import Facts, read_docstring
from sqb.docs_site.pages.frame import build_site
from sqb.docs_site.pages.node import render_node
from sqb.docs_site.pages.run import render_run
from sqb.docs_site.privacy import Scrubber, build_scrubber
from sqb.docs_site.states import judge_node, judge_source
from sqb.docs_site.words import make_file_name
from sqb.docs_site.write import MARK, iter_files, iter_shared_files, write_site
from sqb.errors.call import CallError
from sqb.inspect.lineage import LineageGraph
from sqb.operations.docs import DocsOptions, build_docs, collect_document
from sqb.plan.model import PlannedNode, Reason, Root
from sqb.plan.node_columns import ProjectColumns
from sqb.workspace import open_workspace
from support.docs_project import HOSTILE, SECRET, add_history, collect_example, make_runs, write_docs_project


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("docs") / "shop"


@pytest.fixture(scope="module")
def document(root: Path) -> dict[str, Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SHOP_PASSWORD", SECRET)
        return collect_example(root)


def test_everything_of_the_project_is_in_it(document: dict[str, Any]) -> None:
    types = {name: node["type"] for name, node in document["nodes"].items()}
    assert types["marts.fct_orders"] == "model" and types["seeds.orders"] == "seed" and types["rates"] == "source"
    assert types["tell_finance"] == "task" and types["weekly_report"] == "exposure"
    assert document["sqb_docs"] == 1 and document["project"]["name"] == "shop"
    assert document["plan"]["summary"]["run"] == len(document["plan"]["nodes"])
    assert json.loads(json.dumps(document)) == document


def test_a_model_has_its_columns_with_types_tests_and_origins(document: dict[str, Any]) -> None:
    node = document["nodes"]["marts.fct_orders"]
    columns = {c["name"]: c for c in node["columns"]}
    assert columns["order_id"]["type"] == "bigint" and columns["total"]["type"] == "decimal(12,2)"
    assert columns["order_id"]["from"] == [["staging.stg_orders", "order_id"]]
    assert columns["paid"]["tests"] == ["compare(paid, >=, 0)"]
    assert [c["text"] for c in node["checks"]][-1] == "row_count(>, 0)"
    assert node["state"] == "new" and node["reason"] == "First run"


def test_an_exposure_shows_the_types_of_what_it_reads(document: dict[str, Any]) -> None:
    types = {c["name"]: c["type"] for c in document["nodes"]["weekly_report"]["columns"]}
    assert (types["order_date"], types["total"], types["month_to_date"]) == ("date", "decimal(12,2)", "decimal(32,2)")


def test_links_are_where_relations_are_named(document: dict[str, Any]) -> None:
    node = document["nodes"]["marts.fct_orders"]
    for key in ("sql", "sql_run"):
        text, links = node[key]["text"], node[key]["links"]
        assert {name for _, _, name in links} == {
            "staging.stg_order_lines",
            "staging.stg_payments",
            "staging.stg_orders",
        }
        for start, end, name in links:
            assert name.rpartition(".")[2] in text[start:end]


def test_files_have_the_columns_that_their_options_declare(document: dict[str, Any]) -> None:
    rates = document["nodes"]["rates"]
    assert [(c["name"], c["type"]) for c in rates["columns"]] == [("currency", "string"), ("rate", "double")]
    assert rates["relation"] == "incoming/rates-*.csv"
    columns = {c["name"]: c["from"] for c in document["nodes"]["staging.stg_rates"]["columns"]}
    assert columns == {"currency": [["rates", "currency"]], "rate": [["rates", "rate"]]}


def test_sources_of_which_nothing_is_known_have_the_columns_that_queries_name(document: dict[str, Any]) -> None:
    dollars = document["nodes"]["dollars"]
    assert [(c["name"], c["type"]) for c in dollars["columns"]] == [("rate", "")]
    assert dollars["columns_note"].endswith("; these are read") and dollars["relation"] == ""


def test_functions_are_described_by_their_docstrings(document: dict[str, Any]) -> None:
    assert document["nodes"]["tell_finance"]["description"] == "Says that the figures are there."
    assert read_docstring("def f(ctx):\n    '''One\n    two.\n\n    Three.'''\n") == "One two."
    assert read_docstring("x = 1") == read_docstring("def f(") == read_docstring("") == ""


def test_checks_in_python_have_results(document: dict[str, Any]) -> None:
    (check,) = document["nodes"]["is_plausible"]["checks"]
    assert (check["text"], check["role"], check["severity"]) == ("is_plausible", "check", "warn")
    assert check["file"] == "python/tell.py" and check["last"] is None


def make_entry(run: str, status: str = "ok", run_type: str = "full", failures: tuple[Any, ...] = ()) -> dict[str, Any]:
    return {"run": run, "at": 1.0, "status": status, "run_type": run_type, "failures": list(failures)}


def test_a_check_has_results_only_of_runs_that_ran_it() -> None:
    failure = {"check": "unique(a)", "severity": "error", "message": "2 rows violate it", "violations": 2}
    other = {**failure, "check": "not_null(a)"}
    runs = [
        make_entry("6", run_type="reuse"),
        make_entry("5", status="failed"),
        make_entry("4", failures=({**failure, "severity": "warn"},)),
        make_entry("3", status="blocked"),
        make_entry("2", status="failed", failures=(failure,)),
        make_entry("1", status="failed", failures=(other,)),
    ]
    listed = list_results("unique(a)", runs)
    assert [(r["run"], r["status"]) for r in listed["results"]] == [("1", "passed"), ("2", "failed"), ("4", "warned")]
    assert listed["last"]["run"] == "4" and listed["last"]["violations"] == 2


def test_history_becomes_results_of_checks(document: dict[str, Any]) -> None:
    node = document["nodes"]["staging.stg_orders"]
    assert node["state"] == "failed" and [r["status"] for r in node["runs"]] == ["failed", "ok"]
    check = next(c for c in node["checks"] if c["text"] == "not_null(order_date)")
    assert check["last"]["status"] == "failed" and check["last"]["violations"] == 3
    assert [r["status"] for r in check["results"]] == ["passed", "failed"]


def test_no_secret_and_no_local_path_is_in_what_is_written(document: dict[str, Any], root: Path) -> None:
    everything = json.dumps(document).encode() + b"".join(content for _, content in iter_files(document))
    assert SECRET.encode() not in everything
    assert str(root).encode() not in everything and str(root.parent).encode() not in everything
    assert str(Path.home()).encode() + b"/" not in everything
    assert b"./models/staging/stg_orders.sql ***" in everything


def test_no_rows_unless_they_are_asked_for(tmp_path: Path) -> None:
    workspace = open_workspace(write_docs_project(tmp_path / "shop"))
    add_history(workspace, make_runs(tmp_path))
    assert all("sample" not in n for n in build_docs(workspace, DocsOptions()).document["nodes"].values())
    build_docs(workspace, DocsOptions(sample=3))


class _Tags(HTMLParser):
    """The elements of a page, and the texts in scripts."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        assert not any(name.startswith("on") for name, _ in attrs), attrs
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href")]


def test_what_a_project_says_is_escaped_on_every_page(document: dict[str, Any]) -> None:
    for path, content in iter_files(document):
        if path.endswith(".html"):
            parser = _Tags()
            parser.feed(content.decode())
            main = content.partition(b"<main")[2].partition(b"</main>")[0]
            assert "img" not in parser.tags and b"<script" not in main, path
            outside = [a for a in parser.addresses if re.match(r"\w+:", a) and not a.startswith("data:")]
            assert set(outside) <= {"https://bi.example.com/42"}, path
        elif path.startswith("data/"):
            assert b"<" not in content, path
    assert document["nodes"]["marts.hostile"]["description"] == HOSTILE


def test_file_names_differ_where_names_do() -> None:
    names = ["a.b", "A.b", "a/b", "a b", "a%b", "..", "", "ä", "ö", "x" * 300, "x" * 301, "con", "<script>"]
    files = [make_file_name(name) for name in names]
    assert len({f.lower() for f in files}) == len(names)
    assert all(re.fullmatch(r"[a-z0-9._-]+\.html", f) and len(f) < 110 and not f.startswith(".") for f in files)


def test_a_folder_with_other_files_is_left_alone(document: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("keep")
    with pytest.raises(CallError, match="did not write") as raised:
        write_site(document, tmp_path)
    assert "--output" in (raised.value.hint or "") and [p.name for p in tmp_path.iterdir()] == ["mine.txt"]


def test_the_plan_parts_what_surely_runs_from_what_may(document: dict[str, Any]) -> None:
    plan = document["plan"]
    assert {n["pending"] for n in plan["nodes"]} == {False}
    maybe = {**plan["nodes"][1], "name": "seeds.orders", "pending": True}
    skipped = {**plan["nodes"][2], "action": "skip"}
    diff = "@@ -1 +1 @@\n-SELECT <old>\n+SELECT <new>"
    changed = {**plan, "nodes": [plan["nodes"][0], maybe, skipped], "diffs": {plan["nodes"][0]["name"]: diff}}
    pages = {path: text.decode() for path, text in iter_shared_files(build_site({**document, "plan": changed}))}
    page = pages["plan.html"]
    assert "A build now would run 1 node, 1 more if its inputs change, and skip 1." in page
    assert '<td class="removed">SELECT &lt;old&gt;</td><td class="added">SELECT &lt;new&gt;</td>' in page
    surely, _, may = page.partition("Runs if its inputs change")
    assert "seeds.orders" in may and plan["nodes"][0]["name"] in surely
    assert "A build would run 1 node</a>, 1 more if its inputs change, and skip 1." in pages["index.html"]
    idle = {**plan, "nodes": [skipped]}
    texts = dict(iter_shared_files(build_site({**document, "plan": idle})))
    assert b"nothing to do: 1 node is up to date." in texts["plan.html"]


def test_a_run_of_an_environment_counts_for_that_environment(root: Path, document: dict[str, Any]) -> None:
    runs = {"m": [{"environment": "pr_1", "status": "failed"}, {"environment": None, "status": "ok"}]}
    facts = Facts(
        open_workspace(root), "", {}, ProjectColumns(), LineageGraph("dev", {}), runs, list, lambda node: None
    )
    assert facts.find_last_run("m") == runs["m"][1] and facts.find_last_run("n") is None
    assert replace(facts, environment="pr_1").find_last_run("m") == runs["m"][0]


def test_files_of_others_in_a_folder_of_pages_stay(document: dict[str, Any], tmp_path: Path) -> None:
    site, outside = tmp_path / "site", tmp_path / "outside.txt"
    (site / ".git").mkdir(parents=True)
    (site / ".git/HEAD").write_text("ref: refs/heads/pages")
    outside.write_text("mine")
    write_site(document, site)
    (site / "CNAME").write_text("docs.example.com")
    (site / "nodes/notes.txt").write_text("mine")
    with (site / MARK).open("a") as mark:
        mark.write(f"../outside.txt x\n{outside} x\n")
    remaining = {n: v for n, v in document["nodes"].items() if n != "marts.hostile"}
    write_site({**document, "nodes": remaining}, site)
    assert not (site / "nodes/marts.hostile.html").exists()
    mine = [site / ".git/HEAD", site / "CNAME", site / "nodes/notes.txt", outside]
    assert all(path.exists() for path in mine)


@pytest.mark.parametrize("place", ["file", "file/below", "locked"])
def test_a_folder_that_cannot_be_written_is_named(document: dict[str, Any], tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("x")
    # A link to nowhere that cannot be made: also for root, who may write into any folder.
    (tmp_path / "locked").symlink_to("/proc/self/none")
    with pytest.raises(CallError, match="cannot be written") as raised:
        write_site(document, tmp_path / place)
    assert str(tmp_path / "file" if place != "locked" else tmp_path / "locked") in raised.value.message
    assert "--output" in (raised.value.hint or "")


def test_pages_that_are_not_there_any_more_go(document: dict[str, Any], tmp_path: Path) -> None:
    write_site(document, tmp_path / "site")
    page = tmp_path / "site/nodes/marts.fct_orders.html"
    before = page.stat().st_mtime_ns
    remaining = {n: v for n, v in document["nodes"].items() if n != "marts.hostile"}
    write_site({**document, "nodes": remaining, "generated_at": 0}, tmp_path / "site")
    assert not (tmp_path / "site/nodes/marts.hostile.html").exists() and (tmp_path / "site" / MARK).exists()
    assert (tmp_path / "site/nodes/staging.stg_rates.html").exists()
    assert page.stat().st_mtime_ns >= before


def test_only_pages_of_what_changed_are_made_again(
    document: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    monkeypatch.setattr(write, "render_node", lambda site, name: made.append(name) or render_node(site, name))
    monkeypatch.setattr(write, "render_run", lambda site, run: made.append(run["id"]) or render_run(site, run))

    def rebuild(changed: dict[str, Any]) -> set[str]:
        made.clear()
        write_site({**document, **changed}, tmp_path)
        names = set(made)
        assert all((tmp_path / path).read_bytes() == text for path, text in iter_files({**document, **changed}))
        return names

    assert len(rebuild({})) == len(document["nodes"]) + len(document["runs"])
    assert rebuild({"generated_at": 1.0}) == set()
    # Its own page, and those of its neighbours, which show its state.
    orders = {**document["nodes"]["seeds.orders"], "state": "failed"}
    assert rebuild({"nodes": {**document["nodes"], "seeds.orders": orders}}) == {"seeds.orders", "staging.stg_orders"}
    rebuild({})
    # A page that is gone or cut off is made again; a run that is gone is not linked to any more.
    (tmp_path / "nodes/tell_finance.html").unlink()
    (tmp_path / "nodes/marts.hostile.html").write_text("cut")
    assert rebuild({}) == {"tell_finance", "marts.hostile"}
    latest = document["runs"][0]
    # The page of the run before has a link to it as well.
    around = {*(n["name"] for n in latest["nodes"]), document["runs"][1]["id"]}
    assert rebuild({"runs": document["runs"][1:]}) == around
    assert not (tmp_path / "runs" / make_file_name(latest["id"])).exists()
    everything = {*document["nodes"], *(run["id"] for run in document["runs"])}
    assert rebuild({"project": {**document["project"], "target": "prod"}}) == everything


def test_longer_paths_and_secrets_are_taken_out_first() -> None:
    scrubber = Scrubber({"/home/ann": "~", "/home/ann/shop": "."}, ["pass", 'quo"ted', "longpassword"])
    cleaned = scrubber.clean({"/home/ann/shop/x": ["/home/ann/y", 'a quo"ted b', "longpassword pass"], "n": 1})
    assert cleaned == {"./x": ["~/y", "a *** b", "*** pass"], "n": 1}


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("/app/models/a.sql", "./models/a.sql"),
        ("first\n/app/models/a.sql", "first\n./models/a.sql"),
        ("file:///app/lake and file:/app/lake", "file://./lake and file:./lake"),
        ("s3://lake/app/x, /apple, /srv/app", "s3://lake/app/x, /apple, /srv/app"),
        ("C/home/ann/x", "C~/x"),
        (
            "jdbc:postgresql://ann:pa:ss@db/x?a=1&password=word&b=2",
            "jdbc:postgresql://ann:***@db/x?a=1&password=***&b=2",
        ),
        ("s3://key:secret@bucket/x", "s3://key:***@bucket/x"),
        ('"https://x/?token=abc" \\ and\nmore', '"https://x/?token=***" \\ and\nmore'),
        ("SELECT 'http://x:80/a', b@c", "SELECT 'http://x:80/a', b@c"),
    ],
)
def test_short_paths_are_whole_words_and_addresses_lose_their_passwords(text: str, cleaned: str) -> None:
    assert Scrubber({"/app": ".", "/home/ann": "~"}).clean({"error": [text]}) == {"error": [cleaned]}


def test_what_stands_in_the_environment_and_where_software_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://ann:sesame-open@db/x")
    monkeypatch.setenv("LAKE_PASSWORD", "open/the door")
    monkeypatch.setenv("JAVA_HOME", "/opt/ann/java")
    scrubber = build_scrubber(open_workspace(write_docs_project(tmp_path / "shop")))
    error = f"{sys.prefix}/lib/x.py in {tmp_path}/shop/a.py of /opt/ann/java/bin: sesame-open {Path.home()}/.ivy2"
    assert scrubber.clean(error) == "<python>/lib/x.py in ./a.py of <java>/bin: *** ~/.ivy2"
    assert scrubber.clean("open/the door, open%2Fthe%20door") == "***, ***"


def test_the_folder_of_the_shell_is_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = write_docs_project(tmp_path / "shop")
    monkeypatch.setenv("PWD", str(root))
    monkeypatch.setenv("OLDPWD", str(tmp_path))
    monkeypatch.setenv("DB_PWD", "sesame-open")
    scrubber = build_scrubber(open_workspace(root))
    assert scrubber.clean(f"{root}/models/a.sql: sesame-open") == "./models/a.sql: ***"


def test_links_stay_on_their_words_and_settings_that_are_secrets_are_hidden(tmp_path: Path) -> None:
    root = write_docs_project(tmp_path / "shop")
    header = "MODEL (kind table, config (api_key: 'key-of-ann', day: 'monday'));"
    notes = f"-- https://ann:a-very-long-password@host/x, {root}/models"
    query = "SELECT order_id, @@access_token AS t FROM fct_orders"
    (root / "models/marts/noted.sql").write_text(f"{header}\n{notes}\n{query}\n")
    workspace = open_workspace(root, variables={"access_token": "token-of-ann"})
    node = collect_document(workspace, DocsOptions())["nodes"]["marts.noted"]
    assert node["settings"]["config"] == '{"api_key": "***", "day": "monday"}'
    for key in ("sql", "sql_run"):
        text, ((start, end, name),) = node[key]["text"], node[key]["links"]
        assert name == "marts.fct_orders" and text[start:end].strip("`").endswith("fct_orders"), text
        assert "https://ann:***@host/x, ./models" in text and "of-ann" not in text


def planned(
    action: str, reason: Reason, detail: str = "", pending: bool = False, root: tuple[Root, ...] = ()
) -> PlannedNode:
    return PlannedNode("m", "model", "table", None, action, "full", reason, detail, pending=pending, root=root)  # type: ignore[arg-type]


LOADER = Root("load_sales", Reason.EVERY_BUILD)


@pytest.mark.parametrize(
    ("node", "last", "state", "reason"),
    [
        (planned("skip", Reason.NORMAL), None, "current", "up to date"),
        (planned("skip", Reason.NORMAL), {"status": "failed"}, "current", "up to date"),
        (planned("run", Reason.FIRST_RUN), None, "new", "First run"),
        (planned("run", Reason.QUERY_CHANGED, "query a → b"), None, "stale", "Query changed: query a → b"),
        (planned("run", Reason.UPSTREAM_CHANGED, "x runs", True), None, "stale", "x runs; if its inputs change"),
        (
            planned("run", Reason.EVERY_BUILD, "a loader runs in every build"),
            None,
            "current",
            "a loader runs in every build",
        ),
        (
            planned("run", Reason.UPSTREAM_CHANGED, "x runs", True, (LOADER,)),
            None,
            "current",
            "runs again if load_sales brings something new",
        ),
        (
            planned("run", Reason.UPSTREAM_CHANGED, "x runs", True, (LOADER, Root("y", Reason.QUERY_CHANGED))),
            None,
            "stale",
            "x runs; if its inputs change",
        ),
        (planned("run", Reason.EVERY_BUILD), {"status": "failed"}, "failed", "the last run failed; Every build"),
        (planned("run", Reason.QUERY_CHANGED), {"status": "failed"}, "failed", "the last run failed; Query changed"),
        (planned("blocked", Reason.UPSTREAM_MISSING, "x"), None, "blocked", "Upstream missing: x"),
        (None, None, "unknown", "could not be planned"),
    ],
)
def test_states(node: PlannedNode | None, last: dict[str, str] | None, state: str, reason: str) -> None:
    judged = judge_node(node, last)
    assert judged[0] == state and reason in judged[1]


def test_states_of_sources() -> None:
    assert judge_source(None)[0] == "current"
    assert judge_source({"status": "unchanged", "age_status": "ok"})[0] == "current"
    assert judge_source({"status": "changed"})[0] == "stale"
    assert judge_source({"status": "unchanged", "age_status": "error"})[0] == "failed"
    assert judge_source({"status": "failed", "error": "gone"}) == ("unknown", "gone")
