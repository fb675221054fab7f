"""The language server: the protocol on one side, plain functions on the other. The one importer of pygls."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import BinaryIO

from lsprotocol import types as lsp
from pygls import uris
from pygls.exceptions import JsonRpcException
from pygls.lsp.server import LanguageServer

from sqb import __version__
from sqb.errors.base import Errors, SqbError
from sqb.errors.read_page import find_page, parse_code
from sqb.lsp import completion, hover, navigation
from sqb.lsp import rename as renaming
from sqb.lsp.diagnostics import Diagnostic, list_diagnostics
from sqb.lsp.places import Place, to_line, to_offset
from sqb.lsp.session import ProjectSession
from sqb.lsp.snapshot import Snapshot
from sqb.operations.format import format_file, load_format_settings
from sqb.project.files import find_root

_KINDS = {
    "table": lsp.CompletionItemKind.Class,
    "column": lsp.CompletionItemKind.Field,
    "function": lsp.CompletionItemKind.Function,
    "keyword": lsp.CompletionItemKind.Keyword,
    "key": lsp.CompletionItemKind.Property,
    "value": lsp.CompletionItemKind.EnumMember,
    "check": lsp.CompletionItemKind.Method,
    "macro": lsp.CompletionItemKind.Snippet,
    "variable": lsp.CompletionItemKind.Constant,
    "alias": lsp.CompletionItemKind.Variable,
}
_SEVERITIES = {
    "error": lsp.DiagnosticSeverity.Error,
    "warning": lsp.DiagnosticSeverity.Warning,
    "information": lsp.DiagnosticSeverity.Information,
}
_WATCHED = "**/*.{sql,yml,yaml,toml,csv,py}"


class SqbServer(LanguageServer):
    """Serves the projects that the editor's files are in."""

    def __init__(self) -> None:
        super().__init__("sqb", __version__)
        self.sessions: dict[Path, ProjectSession] = {}
        # The files that have diagnostics, by project: they are cleared when their mistakes are gone.
        self.marked: dict[Path, set[str]] = {}

    def find_session(self, uri: str) -> tuple[ProjectSession, str] | None:
        """The project that a file is in, and the file's path in it."""
        path = uris.to_fs_path(uri)
        if path is None:
            return None
        file = Path(path)
        try:
            root = find_root(file.parent if file.parent.exists() else Path.cwd())
        except SqbError:
            return None
        if not file.is_relative_to(root):
            return None
        if root not in self.sessions:
            self.sessions[root] = ProjectSession(root, self.publish)
        return self.sessions[root], file.relative_to(root).as_posix()

    async def publish(self, snapshot: Snapshot) -> None:
        """Tell the editor all mistakes of a project; files that are open or had some are told that they have none."""
        by_file = list_diagnostics(snapshot)
        before = self.marked.get(snapshot.root, set())
        for file in sorted(before | by_file.keys() | snapshot.texts.keys()):
            listed = [self.to_diagnostic(snapshot, d) for d in by_file.get(file, [])]
            uri = to_uri(snapshot.root, file)
            self.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri=uri, diagnostics=listed))
        self.marked[snapshot.root] = set(by_file)

    def to_diagnostic(self, snapshot: Snapshot, diagnostic: Diagnostic) -> lsp.Diagnostic:
        """A mistake in the protocol's words, with a link to the page about it."""
        page = find_page(diagnostic.code) if parse_code(diagnostic.code) else None
        return lsp.Diagnostic(
            range=self.to_range(snapshot, diagnostic.place),
            message=diagnostic.message,
            severity=_SEVERITIES[diagnostic.severity],
            code=diagnostic.code,
            code_description=lsp.CodeDescription(href=page.resolve().as_uri()) if page is not None else None,
            source="sqb",
        )

    def to_range(self, snapshot: Snapshot, place: Place) -> lsp.Range:
        """A span in the units that the editor counts in."""
        text = snapshot.read_text(place.file)
        lines, codec = text.split("\n"), self.workspace.position_codec
        start, end = to_line(text, place.start), to_line(text, place.end)
        return lsp.Range(
            codec.position_to_client_units(lines, lsp.Position(*start)),
            codec.position_to_client_units(lines, lsp.Position(*end)),
        )

    def to_location(self, snapshot: Snapshot, place: Place) -> lsp.Location:
        """A span of a file in the protocol's words."""
        return lsp.Location(to_uri(snapshot.root, place.file), self.to_range(snapshot, place))

    def find_offset(self, snapshot: Snapshot, path: str, position: lsp.Position) -> int:
        """The offset of an editor's position."""
        text = snapshot.read_text(path)
        lines = text.split("\n")
        if position.line >= len(lines):
            return len(text)
        from_client_units = self.workspace.position_codec.position_from_client_units(
            [f"{line}\n" for line in lines], lsp.Position(position.line, position.character)
        )
        return to_offset(text, from_client_units.line, from_client_units.character)


def to_uri(root: Path, file: str) -> str:
    """The address of a project's file."""
    return uris.from_fs_path(str(root / file)) or ""


def build_server() -> SqbServer:
    """A server with everything that it can do."""
    server = SqbServer()
    _add_documents(server)
    _add_questions(server)
    _add_completion(server)
    _add_formatting(server)
    _add_rename(server)
    return server


def _add_documents(server: SqbServer) -> None:
    @server.feature(lsp.INITIALIZED)
    async def watch(ls: SqbServer, params: lsp.InitializedParams) -> None:
        workspace = ls.client_capabilities.workspace
        watched = workspace.did_change_watched_files if workspace else None
        if watched is not None and watched.dynamic_registration:
            options = lsp.DidChangeWatchedFilesRegistrationOptions([lsp.FileSystemWatcher(_WATCHED)])
            registration = lsp.Registration("sqb-files", lsp.WORKSPACE_DID_CHANGE_WATCHED_FILES, options)
            await ls.client_register_capability_async(lsp.RegistrationParams([registration]))

    @server.feature(lsp.TEXT_DOCUMENT_DID_OPEN)
    async def open_document(ls: SqbServer, params: lsp.DidOpenTextDocumentParams) -> None:
        _put_document(ls, params.text_document.uri)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CHANGE)
    async def change_document(ls: SqbServer, params: lsp.DidChangeTextDocumentParams) -> None:
        _put_document(ls, params.text_document.uri)

    @server.feature(lsp.TEXT_DOCUMENT_DID_SAVE)
    async def save_document(ls: SqbServer, params: lsp.DidSaveTextDocumentParams) -> None:
        session = ls.find_session(params.text_document.uri)
        if session is not None:
            session[0].reader.forget_lake()
            session[0].schedule()

    @server.feature(lsp.TEXT_DOCUMENT_DID_CLOSE)
    async def close_document(ls: SqbServer, params: lsp.DidCloseTextDocumentParams) -> None:
        session = ls.find_session(params.text_document.uri)
        if session is not None:
            session[0].put_text(session[1], None)

    @server.feature(lsp.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    async def change_files(ls: SqbServer, params: lsp.DidChangeWatchedFilesParams) -> None:
        for change in params.changes:
            session = ls.find_session(change.uri)
            if session is not None and not session[1].startswith("."):
                session[0].schedule()


def _put_document(server: SqbServer, uri: str) -> None:
    session = server.find_session(uri)
    if session is not None:
        session[0].put_text(session[1], server.workspace.get_text_document(uri).source)


def _add_questions(server: SqbServer) -> None:
    @server.feature(lsp.TEXT_DOCUMENT_HOVER)
    async def show_hover(ls: SqbServer, params: lsp.HoverParams) -> lsp.Hover | None:
        session = ls.find_session(params.text_document.uri)
        if session is None:
            return None
        snapshot, path = await session[0].settle(), session[1]
        answer = hover.hover(snapshot, path, ls.find_offset(snapshot, path, params.position))
        if answer is None:
            return None
        content = lsp.MarkupContent(lsp.MarkupKind.Markdown, answer[0])
        return lsp.Hover(content, ls.to_range(snapshot, answer[1]))

    @server.feature(lsp.TEXT_DOCUMENT_DEFINITION)
    async def go_to_definition(ls: SqbServer, params: lsp.DefinitionParams) -> list[lsp.Location]:
        session = ls.find_session(params.text_document.uri)
        if session is None:
            return []
        snapshot, path = await session[0].settle(), session[1]
        places = navigation.find_definition(snapshot, path, ls.find_offset(snapshot, path, params.position))
        return [ls.to_location(snapshot, place) for place in places]

    @server.feature(lsp.TEXT_DOCUMENT_REFERENCES)
    async def list_references(ls: SqbServer, params: lsp.ReferenceParams) -> list[lsp.Location]:
        session = ls.find_session(params.text_document.uri)
        if session is None:
            return []
        snapshot, path = await session[0].settle(), session[1]
        offset = ls.find_offset(snapshot, path, params.position)
        places = navigation.find_references(snapshot, path, offset, params.context.include_declaration)
        return [ls.to_location(snapshot, place) for place in places]


def _add_completion(server: SqbServer) -> None:
    options = lsp.CompletionOptions(trigger_characters=[".", "@", ":", "(", ","])

    @server.feature(lsp.TEXT_DOCUMENT_COMPLETION, options)
    async def list_completions(ls: SqbServer, params: lsp.CompletionParams) -> lsp.CompletionList:
        result = ls.find_session(params.text_document.uri)
        if result is None:
            return lsp.CompletionList(False, [])
        session, path = result
        # What was compiled last is good enough: the editor does not wait for a list.
        snapshot = session.snapshot if session.snapshot.workspace is not None else await session.settle()
        offset = ls.find_offset(snapshot, path, params.position)
        items = [_to_item(ls, snapshot, path, offset, one) for one in completion.complete(snapshot, path, offset)]
        return lsp.CompletionList(is_incomplete=False, items=items)


def _add_formatting(server: SqbServer) -> None:
    @server.feature(lsp.TEXT_DOCUMENT_FORMATTING)
    async def format_document(ls: SqbServer, params: lsp.DocumentFormattingParams) -> list[lsp.TextEdit]:
        result = ls.find_session(params.text_document.uri)
        if result is None or not result[1].startswith("models/") or not result[1].endswith(".sql"):
            return []
        session, path = result
        text = session.snapshot.read_text(path)
        formatted = format_file(text, path, load_format_settings(session.root, Errors()))
        if formatted == text:
            return []
        return [lsp.TextEdit(ls.to_range(session.snapshot, Place(path, 0, len(text))), formatted)]


def _add_rename(server: SqbServer) -> None:
    @server.feature(lsp.TEXT_DOCUMENT_PREPARE_RENAME)
    async def prepare_rename(ls: SqbServer, params: lsp.PrepareRenameParams) -> lsp.Range | None:
        result = ls.find_session(params.text_document.uri)
        if result is None:
            return None
        snapshot, path = await result[0].settle(), result[1]
        named = renaming.find_renamed(snapshot, path, ls.find_offset(snapshot, path, params.position))
        return ls.to_range(snapshot, named[1]) if named is not None else None

    @server.feature(lsp.TEXT_DOCUMENT_RENAME, lsp.RenameOptions(prepare_provider=True))
    async def rename_symbol(ls: SqbServer, params: lsp.RenameParams) -> lsp.WorkspaceEdit | None:
        result = ls.find_session(params.text_document.uri)
        if result is None:
            return None
        session, path = result
        snapshot = await session.settle()
        offset = ls.find_offset(snapshot, path, params.position)
        try:
            done = await session.run(
                lambda: renaming.rename(snapshot, path, offset, params.new_name, session.reader.check)
            )
        except renaming.CannotRename as why:
            raise JsonRpcException(str(why), lsp.LSPErrorCodes.RequestFailed) from why
        return _to_workspace_edit(ls, snapshot, done)


def _to_workspace_edit(server: SqbServer, snapshot: Snapshot, done: renaming.Renaming) -> lsp.WorkspaceEdit:
    edits: dict[str, list[lsp.TextEdit | lsp.AnnotatedTextEdit | lsp.SnippetTextEdit]] = {}
    for place, text in done.edits.items():
        edits.setdefault(place.file, []).append(lsp.TextEdit(server.to_range(snapshot, place), text))
    changes: list[lsp.TextDocumentEdit | lsp.CreateFile | lsp.RenameFile | lsp.DeleteFile] = []
    for file, listed in edits.items():
        document = lsp.OptionalVersionedTextDocumentIdentifier(to_uri(snapshot.root, file))
        changes.append(lsp.TextDocumentEdit(document, listed))
    for moved in done.moved:
        old, new = (to_uri(snapshot.root, file) for file in moved)
        changes.append(lsp.RenameFile(old, new))
    return lsp.WorkspaceEdit(document_changes=changes)


def _to_item(
    server: SqbServer, snapshot: Snapshot, path: str, offset: int, one: completion.Completion
) -> lsp.CompletionItem:
    span = server.to_range(snapshot, Place(path, one.start, offset))
    return lsp.CompletionItem(
        label=one.label,
        kind=_KINDS[one.kind],
        detail=one.detail or None,
        documentation=one.text or None,
        sort_text=f"{one.order}{one.label.lower()}",
        text_edit=lsp.TextEdit(span, one.insert or one.label),
    )


def serve() -> None:
    """Serve an editor on standard input and output until it goes."""
    build_server().start_io(sys.stdin.buffer, _take_standard_output())


def _take_standard_output() -> BinaryIO:
    """Standard output for the protocol alone: what macros, imports and child processes print goes to the log."""
    mine = os.dup(1)
    os.dup2(2, 1)
    return os.fdopen(mine, "wb")
