"""Every mistake of the catalogue is found, in its place, and nothing beside it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from sqb.sql.analysis.parse import read_query_with_outline
from sqb.sql.analysis.query import QueryProblem
from sqb.sql.columns.evaluate import evaluate_query
from sqb.sql.columns.functions.signatures import Signatures
from support.columns import read_tables

CATALOGUE: dict[str, list[str]] = yaml.safe_load((Path(__file__).with_name("mistakes.yml")).read_text(encoding="utf-8"))
TABLES = read_tables(
    orders="""
        id bigint, customer int, amount decimal(10,2), day date, at timestamp, tags array<string>,
        info struct<a:int,b:string,c:struct<d:int>>, attrs map<string,int>, ok boolean, note string, raw binary
    """,
    customers="id int, name string, day date, country string",
    items="order_id bigint, product string, price double, quantity int",
)
# What a text alone tells is told when it is read.
OF_TEXT = {"arguments": "wrong arguments"}


def test_the_catalogue_is_large() -> None:
    assert sum(map(len, CATALOGUE.values())) >= 150


@pytest.mark.parametrize(("kind", "marked"), [(k, q) for k, queries in CATALOGUE.items() for q in queries])
def test_mistake_is_found_in_its_place(kind: str, marked: str) -> None:
    text = re.sub("[«»]", "", marked)
    assert find_problems(text) == [(kind, *span) for span in list_marked_spans(marked)]


def find_problems(text: str) -> list[tuple[str, int, int]]:
    try:
        query, outline = read_query_with_outline(text, {})
    except QueryProblem as problem:
        return [(OF_TEXT[problem.kind], problem.start, problem.end)]
    slots = {slot.start: TABLES[slot.name] for slot in query.slots}
    return [(p.kind, p.start, p.end) for p in evaluate_query(outline, slots, Signatures()).problems]


def list_marked_spans(marked: str) -> list[tuple[int, int]]:
    places = [item.start() - index for index, item in enumerate(re.finditer("[«»]", marked))]
    return list(zip(places[::2], places[1::2], strict=True))
