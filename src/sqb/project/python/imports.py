"""What a Python node is made of besides its own function: the modules that it imports, followed through the project.

Imports are read, not carried out: every one that could be carried out counts, whatever its condition. Followed are
those that lead to files within the git root; packages that are installed are not part of a node. An import at the
top of a file of nodes that nothing in the file uses does not count. Of nodes it knows only
where their functions are written: in a module that holds several, each is made of the module without the others.
"""

from __future__ import annotations

import ast
import copy
import hashlib
import os
import symtable
import tokenize
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sqb.cache.files import PACKAGE
from sqb.project.functions.module_files import dump_tree, parse_module, strip_docstrings

_INSTALLED = {"site-packages", "dist-packages", ".venv", "node_modules", "__pypackages__"}


@dataclass(frozen=True, slots=True)
class Module:
    """A module by its name and its file; `package` is what its relative imports start from."""

    name: str
    file: Path

    @property
    def package(self) -> str:
        return self.name if self.file.name == "__init__.py" else self.name.rpartition(".")[0]


@dataclass(frozen=True, slots=True)
class Definition:
    """Where the function of a node is written: its file, the lines of `def` and of its decorator."""

    file: Path
    line: int
    decorator: int


@dataclass(frozen=True, slots=True)
class ModuleContents:
    """What a node is made of: by file, what the module says as a hash, and its text."""

    hashes: Mapping[Path, str]
    texts: Mapping[Path, str]


@dataclass(frozen=True, slots=True)
class ImportStatement:
    """An import as written: `from ..a import b, c` is two levels up, the module `a`, the names `b` and `c`."""

    module: str
    level: int = 0
    names: tuple[str, ...] = ()
    package: str | None = None


@dataclass(frozen=True, slots=True)
class ModulePart:
    """A part of a module's text: what it says, what it imports, and the names by which it may use a function."""

    content: str
    imports: tuple[ImportStatement, ...]
    here: frozenset[str]
    elsewhere: frozenset[str]


@dataclass(frozen=True, slots=True)
class ParsedModule:
    """A file that was read: the text around the functions of nodes, and those functions by the line of their `def`."""

    text: str
    rest: ModulePart
    functions: Mapping[int, tuple[str, ModulePart]] = field(default_factory=dict)
    # First and last line of each of these functions, decorators included.
    spans: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    exported: tuple[str, ...] = ()
    # Imports at the top of a file of nodes that nothing in it uses, by the names that they bind: others may.
    unused: tuple[tuple[str, ImportStatement], ...] = ()


def find_git_root(folder: Path) -> Path:
    """The nearest folder above that git keeps; without git, the folder itself."""
    return next((f for f in (folder, *folder.parents) if (f / ".git").exists()), folder)


def is_installed(path: Path, within: Path) -> bool:
    """Whether a path below a folder is in an environment, where packages are installed."""
    inside = path.relative_to(within)
    if any(part in _INSTALLED for part in inside.parts):
        return True
    return any((within.joinpath(*inside.parts[:n]) / "pyvenv.cfg").exists() for n in range(1, len(inside.parts) + 1))


def build_search_path(folder: Path, entries: Iterable[str], within: Path) -> tuple[Path, ...]:
    """Where modules are looked for: in the project's folder, then in what of Python's path is within the git root."""
    folders = [folder]
    for entry in entries:
        path = Path(os.path.abspath(entry))
        if path.is_dir() and path.is_relative_to(within) and path not in folders and not is_installed(path, within):
            folders.append(path)
    return tuple(folders)


class Modules:
    """The modules of a project, each file read once."""

    def __init__(
        self, search: Iterable[Path], definitions: Iterable[Definition] = (), files: Mapping[Path, bytes] | None = None
    ) -> None:
        self.search = tuple(search)
        # Files that were looked for in vain: one that appears may change what an import means.
        self.absent: set[Path] = set()
        self._definitions: dict[Path, dict[int, int]] = {}
        for definition in definitions:
            self._definitions.setdefault(definition.file, {})[definition.line] = definition.decorator
        self._known = files or {}
        self._read: dict[Path, ParsedModule | None] = {}
        self._found: dict[tuple[str, tuple[Path, ...]], tuple[Path | None, tuple[Path, ...]]] = {}

    def collect_contents(self, start: Module, definition: Definition) -> ModuleContents:
        """What a node is made of that a module defines, besides its own function."""
        visible = {(definition.file, definition.line)}
        while True:
            visited = self._visit(start, visible)
            used = self._find_used_functions(visited, visible)
            if not used:
                break
            visible |= used
        hashes, texts = {}, {}
        for file in visited:
            read = self.read_module(file)
            if read is None:
                hashes[file], texts[file] = "", ""
                continue
            counted = {line for line in read.functions if (file, line) in visible} - (
                {definition.line} if file == definition.file else set()
            )
            parts = [read.rest.content, *(read.functions[line][1].content for line in sorted(counted))]
            hashes[file] = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
            texts[file] = _remove_spans(read.text, [span for line, span in read.spans.items() if line not in counted])
        return ModuleContents(hashes, texts)

    def list_reachable(self, starts: Iterable[Module]) -> set[Path]:
        """Every file that can be reached from modules, the functions of all nodes included."""
        every = {(file, line) for file, lines in self._definitions.items() for line in lines}
        return {file for start in starts for file in self._visit(start, every)}

    def hash_function(self, definition: Definition) -> str:
        """A hash of what the function of a node says, whatever its layout, its docstring and its decorator."""
        read = self.read_module(definition.file)
        piece = read.functions.get(definition.line) if read is not None else None
        return hashlib.sha256((piece[1].content if piece else "").encode()).hexdigest()[:32]

    def _visit(self, start: Module, visible: set[tuple[Path, int]]) -> list[Path]:
        """The files that are reached from a module, sorted, when of the functions of nodes only some count."""
        visited_modules: set[Module] = set()
        stack = [*self.find_modules(start.name), start]
        followed: set[tuple[Module, str]] = set()
        while True:
            self._follow(stack, visited_modules, visible)
            handed_on = {
                reexport: statement
                for reexport, statement in self._iter_reexports(visited_modules, visible)
                if reexport not in followed
            }
            if not handed_on:
                return sorted({module.file for module in visited_modules})
            followed |= handed_on.keys()
            stack = [target for (module, _), wanted in handed_on.items() for target in self._resolve(wanted, module)]

    def _follow(self, stack: list[Module], visited: set[Module], visible: set[tuple[Path, int]]) -> None:
        while stack:
            module = stack.pop()
            if module in visited:
                continue
            visited.add(module)
            for piece in self._list_parts(module.file, visible):
                for statement in piece.imports:
                    stack.extend(self._resolve(statement, module))
            read = self.read_module(module.file)
            for _, statement in read.unused if read is not None else ():
                # Python carries it out all the same, so a file that appears where it is looked for is noted as absent.
                list(self._resolve(statement, module))

    def _list_parts(self, file: Path, visible: set[tuple[Path, int]]) -> list[ModulePart]:
        read = self.read_module(file)
        if read is None:
            return []
        return [read.rest, *(p for line, (_, p) in read.functions.items() if (file, line) in visible)]

    def _iter_reexports(
        self, visited: set[Module], visible: set[tuple[Path, int]]
    ) -> Iterator[tuple[tuple[Module, str], ImportStatement]]:
        """Imports that their own file does not use, and another one takes from it by name."""
        unused = [(m, name, w) for m in visited if (read := self.read_module(m.file)) for name, w in read.unused]
        if unused:
            imported_names = {
                name for m in visited for piece in self._list_parts(m.file, visible) for name in piece.elsewhere
            }
            yield from (((m, name), statement) for m, name, statement in unused if name in imported_names)

    def _find_used_functions(self, visited: list[Path], visible: set[tuple[Path, int]]) -> set[tuple[Path, int]]:
        """The functions of other nodes that are used by name in what counts so far."""
        reads = {file: read for file in visited if (read := self.read_module(file)) is not None}
        pieces = {
            file: [r.rest, *(piece for line, (_, piece) in r.functions.items() if (file, line) in visible)]
            for file, r in reads.items()
        }
        elsewhere = {name for parts in pieces.values() for piece in parts for name in piece.elsewhere}
        functions = set()
        for file, read in reads.items():
            here = {name for piece in pieces[file] for name in piece.here}
            for line, (name, _) in read.functions.items():
                if (file, line) not in visible and (name in here or name in elsewhere):
                    functions.add((file, line))
        return functions

    def read_module(self, file: Path) -> ParsedModule | None:
        """A file, or None when it cannot be read or is not Python."""
        if file not in self._read:
            try:
                raw = self._known[file] if file in self._known else file.read_bytes()
                self._read[file] = _parse_file(raw, self._definitions.get(file, {}))
            except (OSError, SyntaxError, ValueError, RecursionError):
                self._read[file] = None
        return self._read[file]

    def find_modules(self, name: str) -> list[Module]:
        """The module of a name and the packages that it is in, as far as they are there and have files."""
        modules, folders, parts = [], self.search, name.split(".")
        for length, part in enumerate(parts, 1):
            file, folders = self._look_up(part, folders)
            if file is not None:
                modules.append(Module(".".join(parts[:length]), file))
            if not folders:
                break
        return modules

    def _look_up(self, part: str, folders: tuple[Path, ...]) -> tuple[Path | None, tuple[Path, ...]]:
        """A module in folders as Python looks for it: its file, and the folders in which its own modules are."""
        key = (part, folders)
        if key not in self._found:
            self._found[key] = self._search_folders(part, folders)
        return self._found[key]

    def _search_folders(self, part: str, folders: tuple[Path, ...]) -> tuple[Path | None, tuple[Path, ...]]:
        portions = []
        for folder in folders:
            package = folder / part
            for file, inside in ((package / "__init__.py", (package,)), (folder / f"{part}.py", ())):
                if file.is_file():
                    return (None, ()) if file.resolve().is_relative_to(PACKAGE) else (file, inside)
                self.absent.add(file)
            if package.is_dir():
                portions.append(package)
        return None, tuple(portions)

    def _resolve(self, statement: ImportStatement, module: Module) -> Iterator[Module]:
        """The modules that an import of a module leads to."""
        name = statement.module
        if statement.level:
            parts = (module.package if statement.package is None else statement.package).split(".")
            if statement.level > len(parts) or parts == [""]:
                return
            name = ".".join([*parts[: len(parts) - statement.level + 1], *([name] if name else [])])
        base = self.find_modules(name)
        yield from base
        for imported_name in statement.names:
            if imported_name != "*":
                yield from self.find_modules(f"{name}.{imported_name}")
                continue
            read = self.read_module(base[-1].file) if base and base[-1].name == name else None
            for exported in read.exported if read is not None else ():
                yield from self.find_modules(f"{name}.{exported}")


def _parse_file(raw: bytes, definitions: Mapping[int, int]) -> ParsedModule:
    tree = parse_module(raw)
    text = decode_source(raw)
    functions, spans = {}, {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.lineno in definitions:
            functions[node.lineno] = (node.name, _build_part(_strip_decorator(node, definitions[node.lineno])))
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            spans[node.lineno] = (first, node.end_lineno or node.lineno)
    exported = tuple(_iter_exported(tree))
    unused = _remove_unused_imports(tree) if functions else ()
    rest = _NodeFunctionRemover(set(functions)).visit(tree) if functions else tree
    return ParsedModule(text, _build_part(rest), functions, spans, exported, unused)


def _remove_unused_imports(tree: ast.Module) -> tuple[tuple[str, ImportStatement], ...]:
    """Take the imports out of the top of a file that nothing in it uses; what a package imports is for others."""
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} | set(_iter_exported(tree))
    used |= {text for node in ast.walk(tree) for text in _iter_lookups(node)}
    unused: list[tuple[str, ImportStatement]] = []
    for statement in list(tree.body):
        if not isinstance(statement, ast.Import | ast.ImportFrom):
            continue
        aliases = [a for a in statement.names if not _is_used(a, statement, used)]
        for alias in aliases:
            import_statement = next(
                _iter_imports(type(statement)(**{**dict(ast.iter_fields(statement)), "names": [alias]}))
            )
            unused.append(((alias.asname or alias.name).split(".")[0], import_statement))
        statement.names = [a for a in statement.names if a not in aliases]
        if not statement.names:
            tree.body.remove(statement)
    return tuple(unused)


def _is_used(alias: ast.alias, statement: ast.Import | ast.ImportFrom, used: set[str]) -> bool:
    if alias.name == "*" or getattr(statement, "module", None) == "__future__":
        return True
    return (alias.asname or alias.name).split(".")[0] in used


def decode_source(raw: bytes) -> str:
    """The text of a Python file, in whatever encoding it says it has."""
    lines = iter(raw.splitlines(keepends=True))
    encoding, _ = tokenize.detect_encoding(lambda: next(lines, b""))
    return raw.decode(encoding, errors="replace").replace("\r\n", "\n").replace("\r", "\n")


class _NodeFunctionRemover(ast.NodeTransformer):
    """Takes the functions of nodes out of a module."""

    def __init__(self, lines: set[int]) -> None:
        self.lines = lines

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST | None:
        return None if node.lineno in self.lines else self.generic_visit(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST | None:
        return None if node.lineno in self.lines else self.generic_visit(node)


def _strip_decorator(node: ast.FunctionDef | ast.AsyncFunctionDef, line: int) -> ast.Module:
    """A function without the decorator on a line: what that one is given is known by its values."""
    function = copy.deepcopy(node)
    function.decorator_list = [d for d in node.decorator_list if not d.lineno <= line <= (d.end_lineno or d.lineno)]
    return ast.Module([function], [])


def _build_part(tree: ast.AST) -> ModulePart:
    imports = tuple(_iter_imports(tree))
    attributes = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    attributes |= {text for node in ast.walk(tree) for text in _iter_lookups(node)}
    imported = {name for statement in imports for name in statement.names}
    names = _list_global_names(tree)
    # After `from x import *` a bare name may be a function of x.
    elsewhere = attributes | imported | (names if "*" in imported else set())
    code = repr(dump_tree(strip_docstrings(tree)))
    return ModulePart(code, imports, frozenset(names | attributes), frozenset(elsewhere))


def _list_global_names(tree: ast.AST) -> set[str]:
    """The names that are looked up in the module: a variable of a function is not what is called so outside."""
    try:
        return set(_iter_referenced(symtable.symtable(ast.unparse(tree), "", "exec")))
    except (SyntaxError, ValueError, RecursionError):
        return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def _iter_referenced(table: symtable.SymbolTable) -> Iterator[str]:
    for symbol in table.get_symbols():
        if symbol.is_referenced() and (table.get_type() == "module" or symbol.is_global()):
            yield symbol.get_name()
    for child in table.get_children():
        yield from _iter_referenced(child)


def _iter_lookups(node: ast.AST) -> Iterator[str]:
    """Names that are looked up by their texts: `getattr(x, "name")`, `globals()["name"]`."""
    match node:
        case ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Constant(value=str(name)), *_]):
            yield name
        case ast.Subscript(
            value=ast.Call(func=ast.Name(id="globals" | "vars" | "locals")), slice=ast.Constant(value=str(name))
        ):
            yield name


def _iter_imports(tree: ast.AST) -> Iterator[ImportStatement]:
    """Every import in a tree that could be carried out."""
    stack: list[ast.AST] = [tree]
    while stack:
        node = stack.pop()
        match node:
            case ast.If(test=test, orelse=orelse) if _is_type_checking(test):
                stack.extend(orelse)
                continue
            case ast.Import(names=names):
                yield from (ImportStatement(alias.name) for alias in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                yield ImportStatement(module or "", level, tuple(alias.name for alias in names))
            case ast.Call(func=function, args=[ast.Constant(value=str(name)), *more], keywords=keywords):
                called = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
                if called == "import_module":
                    yield _parse_import_call(name, [*more, *(k.value for k in keywords if k.arg == "package")])
                elif called == "__import__":
                    yield ImportStatement(name)
        stack.extend(ast.iter_child_nodes(node))


def _parse_import_call(name: str, package: list[ast.expr]) -> ImportStatement:
    """`import_module(".x", package)`, where a package that is not a text is that of the module itself."""
    module = name.lstrip(".")
    package_name = package[0].value if package and isinstance(package[0], ast.Constant) else None
    return ImportStatement(
        module, len(name) - len(module), package=package_name if isinstance(package_name, str) else None
    )


def _is_type_checking(test: ast.expr) -> bool:
    """Whether a condition holds only where types are checked, and never when the module runs."""
    return (test.attr if isinstance(test, ast.Attribute) else getattr(test, "id", "")) == "TYPE_CHECKING"


def _iter_exported(tree: ast.Module) -> Iterator[str]:
    """The names in `__all__`, which `from x import *` imports, modules among them."""
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Name(id="__all__")], value=value):
                pass
            case (
                ast.AnnAssign(target=ast.Name(id="__all__"), value=value)
                | ast.AugAssign(target=ast.Name(id="__all__"), value=value)
            ):
                pass
            case _:
                continue
        for part in ast.walk(value) if value is not None else ():
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                yield part.value


def _remove_spans(text: str, spans: Iterable[tuple[int, int]]) -> str:
    gone = {line for first, last in spans for line in range(first, last + 1)}
    lines = text.split("\n")
    return "\n".join(line for number, line in enumerate(lines, 1) if number not in gone)
