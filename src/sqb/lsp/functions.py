"""The functions that a query can call, with how they are called: Spark's in Spark's words, and the project's."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

from sqb.compile.model import Function
from sqb.sql.columns.functions.signatures import list_spark_functions


@dataclass(frozen=True, slots=True)
class FunctionText:
    """A function: how it is called, the type of its result ("" where it depends), and what it does."""

    name: str
    call: str
    returns: str
    text: str
    is_own: bool = False


@cache
def load_spark_texts() -> Mapping[str, FunctionText]:
    """Spark's functions by name."""
    usages: dict[str, str] = json.loads(
        resources.files("sqb.lsp").joinpath("spark_usages.json").read_text(encoding="utf-8")
    )
    texts = {}
    for name, signature in list_spark_functions().items():
        usage = usages.get(name, "")
        call, dash, text = usage.partition(" - ")
        returns = str(signature.result) if str(signature.result) != "unknown" else ""
        texts[name] = FunctionText(name, call.strip() if dash else f"{name}(…)", returns, text.strip() or usage)
    return texts


def describe_own(function: Function) -> FunctionText:
    """A function of the project."""
    kind = "SQL" if function.language == "sql" else "Python"
    text = f"{'Table function' if function.is_table else 'Function'} of the project, in {kind}: {function.file}"
    return FunctionText(function.name, f"{function.name}(…)", function.returns, text, is_own=True)
