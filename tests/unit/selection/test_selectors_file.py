"""`selectors.yml`: selections with names."""

from __future__ import annotations

from pathlib import Path

import pytest

from sqb.errors.base import Errors, SqbError, flatten
from sqb.errors.call import BadSelector
from sqb.selection.select import select
from sqb.selection.selectors_file import find_selector, load_selectors

from .test_select import AROUND, NODES

FILE = """
selectors:
  - name: nightly
    description: All that runs at night
    definition: tag:daily,path:models top
  - name: marts
    definition:
      union:
        - method: path
          value: models/marts
          parents: true
          parents_depth: 1
        - intersection:
            - tag: daily
            - method: resource_type
              value: seed
        - exclude:
            - staging.orders
  - name: all_but_marts
    definition:
      union:
        - "*"
        - exclude:
            - method: selector
              value: marts
  - name: below
    definition: {method: fqn, value: staging.customers, children: true, exclude: [{tag: weekly}]}
  - name: whole
    definition: {method: tag, value: weekly, childrens_parents: true}
"""


def choose(root: Path, name: str) -> set[str]:
    return set(select(NODES, AROUND, named=find_selector(root, name)).names)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("nightly", {"staging.customers", "marts.revenue", "reports.top"}),
        ("marts", {"marts.revenue", "marts_eu.revenue", "staging.customers", "seeds.customers"}),
        ("all_but_marts", {"seeds.orders", "staging.orders", "reports.top"}),
        ("below", {"staging.customers", "marts.revenue"}),
        ("whole", set(NODES) - {"marts_eu.revenue"}),
    ],
)
def test_named_selections(tmp_path: Path, name: str, expected: set[str]) -> None:
    (tmp_path / "selectors.yml").write_text(FILE)
    assert choose(tmp_path, name) == expected


def test_descriptions_are_kept(tmp_path: Path) -> None:
    (tmp_path / "selectors.yml").write_text(FILE)
    assert load_selectors(tmp_path, Errors())["nightly"].description == "All that runs at night"


def test_a_name_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(BadSelector) as none:
        find_selector(tmp_path, "nightly")
    assert (none.value.message, none.value.hint) == (
        'no selector is called "nightly"',
        "selectors are declared in selectors.yml",
    )
    (tmp_path / "selectors.yml").write_text(FILE)
    with pytest.raises(BadSelector) as near:
        find_selector(tmp_path, "nigthly")
    assert near.value.hint == "did you mean 'nightly'?"


@pytest.mark.parametrize(
    ("text", "message", "place"),
    [
        ("- name: a", "the selector has no `definition`", "selectors.yml:2:3"),
        ("- {name: a, definition: 'a+b'}", '"a+b" is not a selector', "selectors.yml:2:25"),
        ("- {name: a, definition: {method: tag}}", "a method needs a `value`", "selectors.yml:2:25"),
        (
            "- {name: a, definition: {method: selector, value: a}}",
            "the selector `a` names itself",
            "selectors.yml:2:51",
        ),
        ("- {name: a, definition: {method: selector, value: b}}", "no selector is called `b`", "selectors.yml:2:51"),
        ("- {name: a, definition: 7}", "a definition must be words, a method or a list of these, not 7", None),
        ("- {name: a, definition: x, default: true}", "unknown key `default` in a selector", "selectors.yml:2:28"),
        (
            "- {name: a, definition: {method: tag, value: x, parent: true}}",
            "unknown key `parent` in a selector",
            "selectors.yml:2:49",
        ),
        (
            "- {name: a, definition: {method: tag, value: x, parents: true, parents_depth: far}}",
            '`parents_depth` must be a whole number, not "far"',
            "selectors.yml:2:79",
        ),
    ],
)
def test_mistakes_have_their_places(tmp_path: Path, text: str, message: str, place: str | None) -> None:
    (tmp_path / "selectors.yml").write_text(f"selectors:\n{text}\n")
    with pytest.raises(SqbError) as caught:
        find_selector(tmp_path, "a")
    (error,) = flatten(caught.value)
    assert error.message == message
    assert place is None or str(error.at) == place
