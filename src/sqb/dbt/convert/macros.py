"""Macros that are only SQL with their arguments in it: the same as functions in macros/*.py."""

from __future__ import annotations

import keyword
import re
from collections.abc import Sequence
from pathlib import PurePosixPath

from sqb.dbt.convert.jinja import expressions as e
from sqb.dbt.convert.jinja import template as t
from sqb.dbt.convert.jinja.evaluate import Macro
from sqb.sql.text.lexer import tokenize

_OPENING, _CLOSING = "([{", ")]}"


class MacroWriter:
    """Writes calls of simple macros, and the functions that they call."""

    def __init__(self) -> None:
        self._functions: dict[str, tuple[str, str]] = {}

    def write_call(self, macro: Macro, call: e.Call) -> str | None:
        """`@name(arguments)`; None where the macro or its arguments are not only text."""
        definition = macro.definition
        arguments = _bind(definition, call)
        if arguments is None or not _is_simple(definition):
            return None
        name = definition.name
        self._functions[name] = (f"macros/{_name_module(macro.file)}.py", _write_function(definition))
        return f"@{name}({', '.join(arguments)})"

    def write_files(self) -> dict[str, str]:
        """The modules with the functions that are called."""
        files: dict[str, str] = {}
        for _, (file, function) in sorted(self._functions.items()):
            files[file] = files.get(file, '"""Macros: each returns SQL."""\n') + f"\n\n{function}"
        return files


def _bind(definition: t.Definition, call: e.Call) -> list[str] | None:
    """The arguments of a call in the order of the parameters, defaults included."""
    values: dict[str, e.Expression] = dict(call.named)
    names = [name for name, _ in definition.parameters]
    if len(call.arguments) > len(names) or set(values) - set(names):
        return None
    values |= dict(zip(names, call.arguments, strict=False))
    texts: list[str] = []
    for name, default in definition.parameters:
        text = _write_argument(values.get(name, default))
        if text is None:
            return None
        texts.append(text)
    return texts


def _write_argument(value: e.Expression | None) -> str | None:
    match value:
        case e.Constant(bool()):
            return None
        case e.Constant(int() | float() as number):
            return str(number)
        case e.Constant(str() as text) if _is_one_argument(text):
            return text.strip()
    return None


def _is_one_argument(text: str) -> bool:
    depth, is_empty = 0, True
    for token in tokenize(text):
        is_empty = False
        if token.kind in ("comment", "broken", "macro", "variable") or (token.text == "," and depth == 0):
            return False
        depth += (token.text in _OPENING) - (token.text in _CLOSING) if token.kind == "symbol" else 0
        if depth < 0:
            return False
    return depth == 0 and not is_empty


def _is_simple(definition: t.Definition) -> bool:
    """Whether a macro is only text and its own parameters, each printed as it is."""
    names = {name for name, _ in definition.parameters}
    if not all(_is_python_name(name) for name in (*names, definition.name)):
        return False
    for node in definition.body:
        match node:
            case t.Text(text) if not any(sign in text for sign in ("--", "@", "\\")):
                continue
            case t.Output(e.Name(name)) if name in names:
                continue
        return False
    return bool(_write_pieces(definition.body))


def _is_python_name(name: str) -> bool:
    return name.isidentifier() and not keyword.iskeyword(name) and not name.startswith("_")


def _write_function(definition: t.Definition) -> str:
    parameters = ", ".join(f"{name}: str" for name, _ in definition.parameters)
    lines = _write_pieces(definition.body).strip().split("\\n")
    head = f"def {definition.name}({parameters}) -> str:\n"
    if len(lines) == 1:
        return head + f'    return f"{lines[0]}"\n'
    texts = "".join(f'        f"{line}\\n"\n' for line in lines[:-1])
    return head + f'    return (\n{texts}        f"{lines[-1]}"\n    )\n'


def _write_pieces(body: Sequence[t.Node]) -> str:
    """The body as the inside of an f-string."""
    out = ""
    for node in body:
        if isinstance(node, t.Text):
            text = node.text.replace("\\", "\\\\").replace('"', '\\"').replace("{", "{{").replace("}", "}}")
            out += text.replace("\n", "\\n")
        elif isinstance(node, t.Output) and isinstance(node.expression, e.Name):
            out += f"{{{node.expression.name}}}"
    return re.sub(r"^(?:\s|\\n)+|(?:\s|\\n)+$", "", out)


def _name_module(file: str) -> str:
    stem = re.sub(r"\W", "_", PurePosixPath(file).stem)
    return stem if _is_python_name(stem) else f"macros_{stem.strip('_')}"
