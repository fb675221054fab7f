"""`sqb lsp` with a real client: the protocol over standard input and output of a process of its own."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcException
from pygls.lsp.client import LanguageClient

from sqb.cli.main import run
from unit.folders import write
from unit.lsp.conftest import FILES

TOTALS = "models/marts/totals.sql"
STAGING = "models/staging/stg_orders.sql"


class Editor(LanguageClient):
    """A client that keeps the diagnostics that it is told."""

    def __init__(self, root: Path) -> None:
        super().__init__("editor", "1")
        self.root, self.version = root, 0
        self.told: dict[str, list[lsp.Diagnostic]] = {}
        self.news = asyncio.Event()

        @self.feature(lsp.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        def take(params: lsp.PublishDiagnosticsParams) -> None:
            self.told[params.uri] = list(params.diagnostics)
            self.news.set()

    def uri(self, path: str) -> str:
        return (self.root / path).as_uri()

    def open(self, path: str, text: str | None = None) -> None:
        text = (self.root / path).read_text() if text is None else text
        item = lsp.TextDocumentItem(self.uri(path), "sql", 1, text)
        self.text_document_did_open(lsp.DidOpenTextDocumentParams(item))

    def type(self, path: str, text: str) -> None:
        self.version += 1
        self.told.pop(self.uri(path), None)
        document = lsp.VersionedTextDocumentIdentifier(self.version + 1, self.uri(path))
        change = lsp.TextDocumentContentChangeWholeDocument(text)
        self.text_document_did_change(lsp.DidChangeTextDocumentParams(document, [change]))

    async def diagnose(self, path: str) -> list[lsp.Diagnostic]:
        while self.uri(path) not in self.told:
            self.news.clear()
            await asyncio.wait_for(self.news.wait(), 60)
        return self.told[self.uri(path)]

    def at(self, path: str, line: int, character: int) -> dict[str, Any]:
        return {
            "text_document": lsp.TextDocumentIdentifier(self.uri(path)),
            "position": lsp.Position(line, character),
        }


def edit(root: Path, story: Callable[[Editor], Awaitable[None]]) -> None:
    """Run a story with an editor and a server, and end both."""

    async def tell() -> None:
        editor = Editor(root)
        await editor.start_io(sys.executable, "-c", "from sqb.cli.main import main; main()", "lsp")
        await editor.initialize_async(
            lsp.InitializeParams(capabilities=lsp.ClientCapabilities(), root_uri=root.as_uri())
        )
        editor.initialized(lsp.InitializedParams())
        try:
            await story(editor)
        finally:
            await editor.shutdown_async(None)
            editor.exit(None)
            await editor.stop()

    asyncio.run(asyncio.wait_for(tell(), 120))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    # What macros print must not get into the protocol.
    noisy = {"macros/money.py": "print('hello')\n" + FILES["macros/money.py"]}
    return write(tmp_path, {**FILES, **noisy})


def test_an_editor_works_with_a_project(root: Path) -> None:
    async def story(editor: Editor) -> None:
        editor.open(TOTALS)
        assert await editor.diagnose(TOTALS) == []

        editor.type(TOTALS, "SELECT '😀' AS face, custmer FROM stg_orders\n")
        [wrong] = await editor.diagnose(TOTALS)
        assert (wrong.code, wrong.source) == ("SQB-S006", "sqb")
        assert wrong.code_description is not None and wrong.code_description.href.endswith("/SQB-S006.md")
        # Editors count in UTF-16: the face takes two.
        assert wrong.range == lsp.Range(lsp.Position(0, 21), lsp.Position(0, 28))

        hover = await editor.text_document_hover_async(lsp.HoverParams(**editor.at(TOTALS, 0, 36)))
        assert hover is not None and "staging.stg_orders" in hover.contents.value  # type: ignore[union-attr]

        editor.type(TOTALS, "SELECT o. FROM stg_orders o\n")
        document_completion_async = await editor.text_document_completion_async(
            lsp.CompletionParams(**editor.at(TOTALS, 0, 9))
        )
        assert isinstance(document_completion_async, lsp.CompletionList)
        assert [i.label for i in document_completion_async.items] == ["order_id", "customer", "amount", "placed_on"]

        editor.type(TOTALS, (root / TOTALS).read_text())
        assert await editor.diagnose(TOTALS) == []
        places = await editor.text_document_definition_async(lsp.DefinitionParams(**editor.at(TOTALS, 4, 26)))
        assert [p.uri for p in places] == [editor.uri("models/staging/stg_orders.sql")]  # type: ignore[union-attr]
        context = lsp.ReferenceContext(include_declaration=True)
        uses = await editor.text_document_references_async(lsp.ReferenceParams(context, **editor.at(TOTALS, 4, 26)))
        assert uses is not None and len(uses) == 4

        renamed = await editor.text_document_rename_async(
            lsp.RenameParams(new_name="gross", **editor.at(TOTALS, 4, 26))
        )
        assert renamed is not None and len(renamed.document_changes or ()) == 2
        moved = await editor.text_document_rename_async(lsp.RenameParams(new_name="sales", **editor.at(TOTALS, 5, 9)))
        assert moved is not None and moved.document_changes is not None
        assert isinstance(file := moved.document_changes[-1], lsp.RenameFile)
        assert (file.old_uri, file.new_uri) == (editor.uri(STAGING), editor.uri("models/staging/sales.sql"))
        with pytest.raises(JsonRpcException, match="has a column customer already"):
            await editor.text_document_rename_async(lsp.RenameParams(new_name="customer", **editor.at(TOTALS, 4, 26)))

        editor.type(TOTALS, "select  1 as a")
        document, options = lsp.TextDocumentIdentifier(editor.uri(TOTALS)), lsp.FormattingOptions(2, True)
        edits = await editor.text_document_formatting_async(lsp.DocumentFormattingParams(document, options))
        assert edits is not None and [e.new_text for e in edits] == ["SELECT 1 AS a\n"]

    edit(root, story)


def test_files_outside_of_projects_are_left_alone(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = tmp_path_factory.mktemp("other")
    (other / "query.sql").write_text("SELECT FROM WHERE")

    async def story(editor: Editor) -> None:
        uri = (other / "query.sql").as_uri()
        item = lsp.TextDocumentItem(uri, "sql", 1, "SELECT FROM WHERE")
        editor.text_document_did_open(lsp.DidOpenTextDocumentParams(item))
        params = lsp.HoverParams(lsp.TextDocumentIdentifier(uri), lsp.Position(0, 3))
        assert await editor.text_document_hover_async(params) is None
        assert editor.told == {}

    edit(root, story)


def test_without_pygls_the_command_says_what_to_install(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "pygls", None)
    monkeypatch.delitem(sys.modules, "sqb.lsp.server", raising=False)
    assert run(["lsp"]) == 2
    assert "hint: pip install 'sqb-spark[lsp]'" in capsys.readouterr().err
