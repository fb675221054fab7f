"""What selectors mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from sqb.errors.call import BadSelector
from sqb.selection.expression import FORMS
from sqb.selection.select import Surroundings, select


@dataclass(frozen=True)
class Thing:
    name: str
    after: tuple[str, ...] = ()
    type: str = "model"
    file: str = ""
    tags: tuple[str, ...] = ()
    kind: str = "table"
    settings: Mapping[str, Any] = field(default_factory=dict)


NODES = {
    n.name: n
    for n in (
        Thing("seeds.customers", (), "seed", "seeds/customers.csv", ("Daily",)),
        Thing("seeds.orders", (), "seed", "seeds/orders.csv"),
        Thing("staging.customers", ("seeds.customers",), "model", "models/staging/customers.sql", ("daily",)),
        Thing(
            "staging.orders",
            ("raw.events", "seeds.orders"),
            "model",
            "models/staging/orders.sql",
            ("team:core",),
            "merge",
            {"unique_key": ("id", "day"), "owner": "Ann Lee", "config": {"size": "big"}},
        ),
        Thing(
            "marts.revenue", ("staging.customers", "staging.orders"), "model", "models/marts/revenue.sql", ("daily",)
        ),
        Thing(
            "marts_eu.revenue",
            ("staging.orders",),
            "model",
            "models/marts/eu/revenue.sql",
            settings={"group": "finance", "owner": "bob"},
        ),
        Thing("reports.top", ("marts.revenue",), "model", "models/reports/top.sql", ("weekly",)),
    )
}
EXTERNALS = ("raw.events", "raw.clicks")
ALL = set(NODES)


AROUND = Surroundings(
    EXTERNALS,
    {"board": ("marts.revenue", "raw.clicks"), "letter": ("reports.top",)},
    ask=lambda method, value: {
        ("state", "new"): {"reports.top"},
        ("source_status", "fresher"): {"raw.events"},
        ("result", "error"): {"staging.customers"},
    }.get((method, value), ()),
)


def chosen(*include: str, exclude: tuple[str, ...] = ()) -> set[str]:
    return set(select(NODES, AROUND, include, exclude).names)


@pytest.mark.parametrize(
    ("selectors", "expected"),
    [
        ((), ALL),
        (("staging.orders",), {"staging.orders"}),
        (("STAGING.Orders",), {"staging.orders"}),
        # A bare name is every node of that name.
        (("orders",), {"seeds.orders", "staging.orders"}),
        (("revenue",), {"marts.revenue", "marts_eu.revenue"}),
        (("staging.*",), {"staging.customers", "staging.orders"}),
        (("rev*",), {"marts.revenue", "marts_eu.revenue"}),
        (("top", "marts_eu.revenue"), {"reports.top", "marts_eu.revenue"}),
        (("top marts_eu.revenue",), {"reports.top", "marts_eu.revenue"}),
        (("+top",), ALL - {"marts_eu.revenue"}),
        (("staging.customers+",), {"staging.customers", "marts.revenue", "reports.top"}),
        (("+marts.revenue+",), ALL - {"marts_eu.revenue"}),
        (("tag:daily",), {"seeds.customers", "staging.customers", "marts.revenue"}),
        (("tag:team:core",), {"staging.orders"}),
        (("tag:week*",), {"reports.top"}),
        (("+tag:weekly",), ALL - {"marts_eu.revenue"}),
        (("path:models/marts",), {"marts.revenue", "marts_eu.revenue"}),
        (("path:marts/",), {"marts.revenue", "marts_eu.revenue"}),
        (("path:./models/marts/eu/revenue.sql",), {"marts_eu.revenue"}),
        (("path:models/*/orders.sql",), {"staging.orders"}),
        (("path:seeds",), {"seeds.customers", "seeds.orders"}),
        (("model:orders",), {"staging.orders"}),
        (("seed:*",), {"seeds.customers", "seeds.orders"}),
        (("source:raw.events",), {"staging.orders"}),
        (("source:raw.events+",), {"staging.orders", "marts.revenue", "marts_eu.revenue", "reports.top"}),
        (("tag:daily,staging.*",), {"staging.customers"}),
        (("tag:daily,marts.* top",), {"marts.revenue", "reports.top"}),
        (("+top,path:staging",), {"staging.customers", "staging.orders"}),
        (("source:raw.clicks",), set()),
        # A source's schema stands for all of it.
        (("source:raw",), {"staging.orders"}),
        (("source:raw.events+2",), {"staging.orders", "marts.revenue", "marts_eu.revenue"}),
        # How far.
        (("1+marts.revenue",), {"marts.revenue", "staging.customers", "staging.orders"}),
        (("staging.orders+1",), {"staging.orders", "marts.revenue", "marts_eu.revenue"}),
        (("0+top",), {"reports.top"}),
        (("2+top+1",), {"reports.top", "marts.revenue", "staging.customers", "staging.orders"}),
        (("1+marts.revenue+1",), {"marts.revenue", "staging.customers", "staging.orders", "reports.top"}),
        # With all that is needed to build what is below.
        (("@staging.customers",), ALL - {"marts_eu.revenue"}),
        (("@seeds.orders",), ALL),
        # A word that names no node names a folder, or a path.
        (("staging",), {"staging.customers", "staging.orders"}),
        (("marts",), {"marts.revenue", "marts_eu.revenue"}),
        (("marts/eu",), {"marts_eu.revenue"}),
        (("models/marts",), {"marts.revenue", "marts_eu.revenue"}),
        (("models/staging/orders.sql+",), {"staging.orders", "marts.revenue", "marts_eu.revenue", "reports.top"}),
        (("EU",), {"marts_eu.revenue"}),
        # The name of a file, too.
        (("Orders.sql",), {"staging.orders"}),
        (("file:revenue.sql",), {"marts.revenue", "marts_eu.revenue"}),
        (("file:top",), {"reports.top"}),
        (("fqn:top",), {"reports.top"}),
        (("resource_type:seed",), {"seeds.customers", "seeds.orders"}),
        (("config.kind:merge",), {"staging.orders"}),
        (("config.materialized:Merge",), {"staging.orders"}),
        (("config.unique_key:day",), {"staging.orders"}),
        (("config.config.size:b*",), {"staging.orders"}),
        (("owner:ann*",), {"staging.orders"}),
        (("group:finance",), {"marts_eu.revenue"}),
        (("exposure:board",), {"marts.revenue"}),
        (("+exposure:letter",), ALL - {"marts_eu.revenue"}),
        (("2+exposure:letter",), {"reports.top", "marts.revenue"}),
        (("exposure:*",), {"marts.revenue", "reports.top"}),
        (("state:new",), {"reports.top"}),
        (("1+state:new",), {"reports.top", "marts.revenue"}),
        (("state:old",), set()),
        (("source_status:fresher",), {"staging.orders"}),
        (("source_status:fresher+",), {"staging.orders", "marts.revenue", "marts_eu.revenue", "reports.top"}),
        (("result:error+",), {"staging.customers", "marts.revenue", "reports.top"}),
    ],
)
def test_selection(selectors: tuple[str, ...], expected: set[str]) -> None:
    assert chosen(*selectors) == expected


def test_what_is_excluded_is_taken_away_last() -> None:
    assert chosen(exclude=("seed:*",)) == ALL - {"seeds.customers", "seeds.orders"}
    assert chosen("+top", exclude=("+staging.orders",)) == {
        "seeds.customers",
        "staging.customers",
        "marts.revenue",
        "reports.top",
    }
    assert chosen("top", exclude=("top",)) == set()


def test_only_no_selector_at_all_is_everything() -> None:
    assert select(NODES, AROUND).everything
    assert not select(NODES, AROUND, ["*"]).everything
    assert not select(NODES, AROUND, (), ["top"]).everything


@pytest.mark.parametrize(
    ("selector", "message", "hint"),
    [
        ("ordres", 'nothing is called "ordres"', "did you mean 'orders'?"),
        ("tag:weakly", 'nothing is called "tag:weakly"', "did you mean 'tag:weekly'?"),
        ("path:nowhere", 'nothing is called "path:nowhere"', None),
        (
            "path:models/stagin",
            'nothing is called "path:models/stagin"',
            "did you mean 'path:models/staging' or 'path:models/staging/orders.sql' or 'path:models/marts'?",
        ),
        ("tags:daily", '"tags:" is not a selector method', "did you mean 'tag' or 'task'?"),
        (
            "xyz:me",
            '"xyz:" is not a selector method',
            "methods: asset, check, config.KEY, exposure, file, fqn, group, loader, model, owner, path, resource_type, "
            "result, seed, source, source_status, state, tag, task",
        ),
        ("config.knd:merge", '"config.knd:" names no key of models', "did you mean 'kind'?"),
        ("owner:bop", 'nothing is called "owner:bop"', "did you mean 'owner:bob'?"),
        ("exposure:bord", 'no exposure is called "bord"', "did you mean 'board'?"),
        ("state:modifed", '"modifed" is not a value of state:', "did you mean 'modified' or 'unmodified'?"),
        ("stagin", 'nothing is called "stagin"', "did you mean 'staging' or 'staging.orders'?"),
        ("@+top", '"@+top" is not a selector', FORMS),
        ("tag:", '"tag:" is not a selector', FORMS),
        ("source:raw.event", 'no source is called "raw.event"', "did you mean 'raw.events'?"),
        ("+", '"+" is not a selector', FORMS),
        ("a+b", '"a+b" is not a selector', FORMS),
        ("orders,", '"" is not a selector', FORMS),
        ("", "an empty selector selects nothing", FORMS),
        (
            "model:customer",
            'nothing is called "model:customer"',
            "did you mean 'model:customers' or 'model:staging.customers'?",
        ),
    ],
)
def test_a_selector_that_fits_nothing_is_an_error(selector: str, message: str, hint: str | None) -> None:
    with pytest.raises(BadSelector) as caught:
        chosen(selector)
    assert (caught.value.message, caught.value.hint) == (message, hint)
    with pytest.raises(BadSelector):
        chosen(exclude=(selector,))


def test_a_source_is_followed_through_sources_that_are_queries() -> None:
    below = replace(NODES["staging.orders"], name="staging.paid", after=("paid_orders",))
    nodes = {**NODES, "staging.paid": below}
    around = replace(AROUND, externals=(*AROUND.externals, "paid_orders"), underlying={"paid_orders": ("raw.events",)})
    assert "staging.paid" in select(nodes, around, ["source:raw.events+"]).names
    assert "staging.paid" in select(nodes, around, ["source:raw.events+2"]).names
    assert select(nodes, around, ["source:paid_orders"]).names == {"staging.paid"}
    assert "staging.paid" not in select(nodes, around, ["source:raw.events"]).names
