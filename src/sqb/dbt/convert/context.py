"""What the templates of a dbt project may ask for: references, variables, configuration, macros, dbt's functions."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from sqb.dbt.convert.jinja import expressions as e
from sqb.dbt.convert.jinja.evaluate import Evaluator, Macro, Members, Package
from sqb.dbt.convert.jinja.problems import Unconvertible
from sqb.dbt.convert.jinja.template import parse_template
from sqb.dbt.convert.jinja.values import UNDEFINED
from sqb.dbt.convert.macros import MacroWriter
from sqb.dbt.convert.marks import Environment, MacroCall, Marks, Relation, This, Variable

# Hears what is worth a look, why, and where it is.
Note = Callable[[str, str, tuple[str, int]], None]

# What dbt's own macros write for Spark, by their names.
_CROSS_DATABASE: Mapping[str, Callable[..., str]] = {
    "type_string": lambda: "string",
    "type_int": lambda: "int",
    "type_bigint": lambda: "bigint",
    "type_float": lambda: "float",
    "type_boolean": lambda: "boolean",
    "type_timestamp": lambda: "timestamp",
    "type_numeric": lambda: "decimal(28,6)",
    "current_timestamp": lambda: "current_timestamp()",
    "date_trunc": lambda datepart, date: f"date_trunc('{datepart}', {date})",
    "concat": lambda fields: f"concat({', '.join(fields)})",
    "hash": lambda field: f"md5(cast({field} as string))",
    "safe_cast": lambda field, type: f"cast({field} as {type})",
    "length": lambda expression: f"length({expression})",
    "replace": lambda field, old_chars, new_chars: f"replace({field}, {old_chars}, {new_chars})",
    "string_literal": lambda value: f"'{value}'",
    "any_value": lambda expression: f"first({expression})",
    "bool_or": lambda expression: f"max({expression})",
    "except": lambda: "except",
    "intersect": lambda: "intersect",
}
_BARE = frozenset(name for name in _CROSS_DATABASE if name.startswith("type_") or name == "current_timestamp")
_ASKS_DATABASE = frozenset(
    ("run_query", "statement", "load_result", "load_relation", "graph", "dbt_utils.get_column_values", "dbt_utils.star")
)
_ONLY_DBT = {
    "model": "only dbt knows it",
    "run_started_at": "a query may use current_timestamp()",
    "invocation_id": "only dbt knows it",
    "modules": "Python is not run while a project is read: write a macro in macros/*.py",
    "selected_resources": "only dbt knows it",
    "database": "only dbt knows it",
    "schema": "only dbt knows it",
    "varargs": "macros here have named arguments",
    "kwargs": "macros here have named arguments",
    "caller": "macros here take texts",
    "namespace": "it is not known here",
    "api": "only dbt knows it",
}


def _write_surrogate_key(field_list: list[str]) -> str:
    """What `dbt_utils.generate_surrogate_key` writes for Spark."""
    parts: list[str] = []
    for field in field_list:
        parts += [f"coalesce(cast({field} as string), '_dbt_utils_surrogate_key_null_')", "'-'"]
    return f"md5(cast(concat({', '.join(parts[:-1])}) as string))"


class Library:
    """What all files of a project share: its macros, its variables and what its references mean."""

    def __init__(
        self,
        name: str,
        macros: Mapping[tuple[str, str], Macro],
        variables: Mapping[str, Any],
        target: Mapping[str, Any],
        packages: Collection[str] = (),
    ) -> None:
        self.name = name
        self.macros = macros
        self.variables = variables
        self.target = target
        self.packages = {name, "dbt", "dbt_utils", *packages, *(package for package, _ in macros)}
        self.relations: dict[str, Relation] = {}
        self.sources: dict[tuple[str, str], Relation] = {}
        self.writer = MacroWriter()

    def find_macro(self, package: str | None, name: str) -> Macro | None:
        """A macro of a package; without one the project's own come first."""
        if package is not None:
            return self.macros.get((package, name))
        return self.macros.get((self.name, name))


class FileContext:
    """What one file of a project asks for, and what it asked for."""

    def __init__(
        self,
        library: Library,
        is_incremental: bool = False,
        note: Note = lambda what, why, place: None,
        values: Mapping[str, Any] | None = None,
        marks: Marks | None = None,
    ) -> None:
        self.library = library
        self.marks = marks or Marks()
        self.config: dict[str, Any] = {}
        self.refs: list[str] = []
        self.asked_incremental = False
        self.place = ("", 1)
        self._is_incremental = is_incremental
        self._report = note
        self._values = values or {}

    def _note(self, what: str, why: str) -> None:
        self._report(what, why, self.place)

    def find(self, name: str) -> object:
        """The value of a name."""
        if name in self._values:
            return self._values[name]
        functions: dict[str, Callable[..., Any]] = {
            "ref": self._ref,
            "source": self._source,
            # A function of the database: here it is called by its name.
            "function": lambda *names: names[-1],
            "var": self._var,
            "env_var": self._env_var,
            "is_incremental": self._ask_incremental,
            "should_full_refresh": lambda: False,
            "log": lambda *_, **__: "",
            "print": lambda *_, **__: "",
            "range": lambda *numbers: list(range(*numbers)),
            "zip": lambda *lists: list(zip(*lists, strict=False)),
            "dbt_utils.generate_surrogate_key": _write_surrogate_key,
        }
        if name in functions:
            return functions[name]
        return self._find_member(name)

    def _find_member(self, name: str) -> object:
        match name:
            case "config":
                members = {"get": lambda key, default=None: self.config.get(key, default)}
                return Members("config", members, self._configure)
            case "this":
                return self.marks.add(This())
            case "target":
                return self._describe_target()
            case "execute":
                return True
            case "builtins":
                # What a project asks for whose own macros are called `ref` and `source`.
                return Members("builtins", {"ref": self._ref, "source": self._source})
            case "flags":
                return Members("flags", {"FULL_REFRESH": False})
            case "adapter":
                return Members("adapter", {"dispatch": self._dispatch})
            case "exceptions":
                return Members("exceptions", {"raise_compiler_error": _refuse, "warn": lambda *_: ""})
        if name.removeprefix("dbt.") in _CROSS_DATABASE and (name.startswith("dbt.") or name in _BARE):
            return _CROSS_DATABASE[name.removeprefix("dbt.")]
        if name in _ASKS_DATABASE:
            raise Unconvertible(f"`{name}`", "it asks the database while the project is compiled")
        if name in _ONLY_DBT:
            raise Unconvertible(f"`{name}`", _ONLY_DBT[name])
        if name in self.library.packages:
            return Package(name)
        if "." in name:
            package = name.partition(".")[0]
            if package == "dbt":
                raise Unconvertible(f"`{name}`", "what dbt writes in its place is not known here")
            raise Unconvertible(
                f"`{name}`", f"no file of the package {package} has it: `dbt deps` writes packages to dbt_packages/"
            )
        return UNDEFINED

    def find_macro(self, package: str | None, name: str) -> Macro | None:
        """A macro by its name."""
        return self.library.find_macro(package, name)

    def mark_output(self, expression: e.Expression, render: Callable[[], str]) -> str | None:
        """A variable, a part of the environment or a simple macro that is printed as it is."""
        match expression:
            case e.Call(e.Name("var"), (e.Constant(str() as name), *_)):
                value = self._var(name, *self._read_defaults(expression), is_printed=True)
                scalar = isinstance(value, str | int | float)
                return self.marks.add(Variable(name, value)) if scalar else None
            case e.Call(e.Name("env_var"), (e.Constant(str() as name), *others)):
                if others:
                    self._note(f"env_var('{name}')", "it has no default here: the variable must be set")
                return self.marks.add(Environment(name))
            case e.Call(e.Name(name), _, _):
                macro = self.library.find_macro(None, name)
                if macro is not None:
                    return self._mark_macro(macro, expression, render)
        return None

    def _mark_macro(self, macro: Macro, call: e.Call, render: Callable[[], str]) -> str | None:
        native = self.library.writer.write_call(macro, call)
        if native is None:
            return None
        return self.marks.add(MacroCall(native, render()))

    def _read_defaults(self, call: e.Call) -> list[Any]:
        evaluator = Evaluator(self, "")
        given = (*call.arguments[1:], *(value for name, value in call.named if name == "default"))
        return [evaluator.evaluate(argument, {}) for argument in given]

    def _describe_target(self) -> Members:
        target = self.library.target
        self._note("target", f"the text for the target {target.get('name')} is taken, whatever the target is here")
        return Members("target", {**target, "profile_name": self.library.name, "threads": 1})

    def _ref(self, *names: str, **_: Any) -> str:
        name = names[-1]
        relation = self.library.relations.get(name)
        if relation is None:
            raise Unconvertible(f"ref('{name}')", "no model, seed or snapshot of the project has this name")
        self.refs.append(name)
        return self.marks.add(relation)

    def _source(self, source: str, table: str) -> str:
        relation = self.library.sources.get((source, table))
        if relation is None:
            raise Unconvertible(f"source('{source}', '{table}')", "no YAML file declares this source")
        return self.marks.add(relation)

    def _var(self, name: str, *positional: Any, is_printed: bool = False, **named: Any) -> Any:
        default = (*positional, *named.values())
        if name not in self.library.variables and not default:
            raise Unconvertible(f"var('{name}')", "it has no value in dbt_project.yml and no default")
        value = self.library.variables.get(name, default[0] if default else None)
        if not is_printed:
            self._note(f"var('{name}')", f"the value {value!r} is part of the text now; `--vars` does not change it")
        return value

    def _env_var(self, name: str, *default: Any) -> str:
        raise Unconvertible(f"env_var('{name}')", "its value is not known; a query may use @@ENV:" + name)

    def _ask_incremental(self) -> bool:
        self.asked_incremental = True
        return self._is_incremental

    def _configure(self, *positional: Mapping[str, Any], **settings: Any) -> str:
        for mapping in positional:
            self.config.update(mapping)
        self.config.update(settings)
        return ""

    def _dispatch(self, macro_name: str, macro_namespace: str | None = None, **_: Any) -> Callable[..., Any]:
        packages = [self.library.name] + ([macro_namespace] if macro_namespace else sorted(self.library.packages))
        for prefix in ("spark__", "default__"):
            for package in packages:
                macro = self.library.find_macro(package, prefix + macro_name)
                if macro is not None:
                    return lambda *a, **k: Evaluator(self, macro.file).call_macro(macro, a, k)
        if macro_namespace in (None, "dbt") and macro_name in _CROSS_DATABASE:
            return _CROSS_DATABASE[macro_name]
        raise Unconvertible(f"adapter.dispatch('{macro_name}')", "no file has it for Spark, and none a default")


class SettingContext(FileContext):
    """What a setting asks for: its value counts, so that nothing in it stays open."""

    def mark_output(self, expression: e.Expression, render: Callable[[], str]) -> str | None:
        """Nothing: what is printed is its value."""
        return None


def evaluate_setting(library: Library, text: str, note: Note = lambda what, why, place: None) -> Any:
    """The value of a setting that is written in Jinja, as dbt takes it; raises Unconvertible."""
    context = SettingContext(library, note=note, values={"target": library.target})
    value = Evaluator(context, "").render(parse_template(text)).strip()
    if value.lower() in ("true", "false"):
        return value.lower() == "true"
    return int(value) if re.fullmatch(r"-?\d+", value) else value


def _refuse(message: object = "") -> str:
    raise Unconvertible("exceptions.raise_compiler_error", str(message))
