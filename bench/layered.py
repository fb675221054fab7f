"""Projects of any size for the benchmarks: layers of small models over two seeds.

Every model has the same four columns (id, grp, amount, day), `id` is unique in each, so any model may read any other
and no join multiplies rows. The text depends on the number of models only: two runs measure the same project.
"""

from __future__ import annotations

import argparse
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

GROUPS = 8
EVENTS = 40
VIEW_EVERY = 10
# Amounts stay below this, so that sums of sums never overflow under ANSI rules, however deep the project is.
MODULUS = 10007

SEED_TYPES = {
    "events": {"id": "bigint", "grp": "bigint", "amount": "bigint", "day": "date"},
    "grps": {"id": "bigint", "grp": "bigint", "weight": "bigint"},
}


@dataclass(frozen=True, slots=True)
class Model:
    """One generated model file."""

    name: str
    folder: str
    kind: str
    header: str
    query: str

    @property
    def text(self) -> str:
        return f"{self.header}\n{self.query}\n"


def write_project(folder: Path, models: int) -> list[Path]:
    """Write a project of `models` models into `folder`; the model files in topological order."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sqlbuild_project.toml").write_text(
        f'name = "bench_{models}"\ndefault_target = "dev"\n\n[targets.dev]\nschema = "{{folder}}"\n', encoding="utf-8"
    )
    write_seeds(folder / "seeds")
    files = []
    for model in generate(models):
        file = folder / "models" / model.folder / f"{model.name}.sql"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(model.text, encoding="utf-8")
        files.append(file)
    return files


def generate(models: int) -> list[Model]:
    """The models of a project, layer by layer; each but the first layer reads 1 to 3 of the layer before."""
    rng = random.Random(models)
    layers = max(1, min(10, models // 5))
    made: list[Model] = []
    above: list[Model] = []
    for layer in range(layers):
        size = models // layers + (layer < models % layers)
        above = [_model(rng, layer, place, len(made) + place, above) for place in range(size)]
        made += above
    return made


def edit(file: Path) -> None:
    """Change what a model computes: the kind of edit that planning must notice."""
    text = file.read_text(encoding="utf-8")
    changed = re.sub(r"% (\d+)", lambda found: f"% {int(found[1]) + 1}", text, count=1)
    if changed == text:
        raise ValueError(f"{file} holds nothing to edit")
    file.write_text(changed, encoding="utf-8")


def _model(rng: random.Random, layer: int, place: int, number: int, above: Sequence[Model]) -> Model:
    kind = "view" if number % VIEW_EVERY == VIEW_EVERY - 1 else "table"
    query = _later_query(rng, rng.sample(above, min(len(above), rng.randint(1, 3)))) if above else _first_query(rng)
    return Model(
        name=f"m_{layer:02d}_{place:03d}",
        folder=f"layer_{layer:02d}",
        kind=kind,
        header=_header(kind, layer, directives=number % 2 == 0),
        query=query,
    )


def _header(kind: str, layer: int, *, directives: bool) -> str:
    if directives:
        return f"-- @kind: {kind}\n-- @description: A model of layer {layer}\n"
    return f"MODEL (\n  kind {kind},\n  description 'A model of layer {layer}',\n);\n"


def _first_query(rng: random.Random) -> str:
    factor = rng.randint(2, 9)
    if rng.random() < 0.5:
        return (
            f"SELECT id, grp, (amount * {factor}) % {MODULUS} AS amount, day\n"
            f"FROM events\n"
            f"WHERE amount % 11 <> {rng.randint(0, 10)}"
        )
    return (
        f"SELECT e.id, e.grp, (e.amount * g.weight + {factor}) % {MODULUS} AS amount, e.day\n"
        f"FROM seeds.events AS e\n"
        f"JOIN grps AS g ON g.grp = e.grp"
    )


def _later_query(rng: random.Random, reads: Sequence[Model]) -> str:
    # Half of the references are qualified: resolving both spellings is part of the cost that is measured.
    names = [model.name if rng.random() < 0.5 else f"{model.folder}.{model.name}" for model in reads]
    match names:
        case [one]:
            return rng.choice((_filter, _aggregate, _window))(rng, one)
        case [left, right]:
            return rng.choice((_join, _aggregate_of_union))(rng, left, right)
        case _:
            return _join_of_three(rng, *names)


def _filter(rng: random.Random, one: str) -> str:
    return (
        f"SELECT id, grp, (amount + {rng.randint(1, 99)}) % {MODULUS} AS amount, day\n"
        f"FROM {one}\n"
        f"WHERE amount % 13 <> {rng.randint(0, 12)}"
    )


def _aggregate(rng: random.Random, one: str) -> str:
    return (
        f"SELECT grp AS id, grp, (sum(amount) + {rng.randint(1, 99)}) % {MODULUS} AS amount, max(day) AS day\n"
        f"FROM {one}\n"
        f"GROUP BY grp"
    )


def _window(rng: random.Random, one: str) -> str:
    return (
        f"SELECT\n"
        f"  id,\n"
        f"  grp,\n"
        f"  (sum(amount) OVER (PARTITION BY grp ORDER BY id) + {rng.randint(1, 99)}) % {MODULUS} AS amount,\n"
        f"  day\n"
        f"FROM {one}"
    )


def _join(rng: random.Random, left: str, right: str) -> str:
    return (
        f"SELECT\n"
        f"  l.id,\n"
        f"  l.grp,\n"
        f"  (l.amount + coalesce(r.amount, {rng.randint(1, 99)})) % {MODULUS} AS amount,\n"
        f"  greatest(l.day, r.day) AS day\n"
        f"FROM {left} AS l\n"
        f"LEFT JOIN {right} AS r ON r.id = l.id"
    )


def _aggregate_of_union(rng: random.Random, left: str, right: str) -> str:
    return (
        f"WITH both_of_them AS (\n"
        f"  SELECT id, grp, amount, day FROM {left}\n"
        f"  UNION ALL\n"
        f"  SELECT id, grp, amount, day FROM {right}\n"
        f")\n"
        f"\n"
        f"SELECT id, min(grp) AS grp, (sum(amount) * {rng.randint(2, 9)}) % {MODULUS} AS amount, max(day) AS day\n"
        f"FROM both_of_them\n"
        f"GROUP BY id"
    )


def _join_of_three(rng: random.Random, left: str, middle: str, right: str) -> str:
    return (
        f"WITH by_grp AS (\n"
        f"  SELECT grp, sum(amount) AS amount\n"
        f"  FROM {right}\n"
        f"  GROUP BY grp\n"
        f")\n"
        f"\n"
        f"SELECT\n"
        f"  l.id,\n"
        f"  l.grp,\n"
        f"  (l.amount + coalesce(m.amount, 0) + coalesce(g.amount, {rng.randint(1, 99)})) % {MODULUS} AS amount,\n"
        f"  l.day\n"
        f"FROM {left} AS l\n"
        f"LEFT JOIN {middle} AS m ON m.id = l.id\n"
        f"LEFT JOIN by_grp AS g ON g.grp = l.grp"
    )


def write_seeds(folder: Path) -> None:
    """Write the two seeds that everything is made from."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = random.Random(0)
    first_day = date(2026, 1, 1)
    events = [
        (number, number % GROUPS, rng.randint(1, 5000), first_day + timedelta(days=rng.randint(0, 180)))
        for number in range(1, EVENTS + 1)
    ]
    groups = [(number + 1, number, rng.randint(1, 9)) for number in range(GROUPS)]
    for name, rows in (("events", events), ("grps", groups)):
        types = SEED_TYPES[name]
        lines = [",".join(types), *(",".join(map(str, row)) for row in rows)]
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
        columns = "".join(f"  {column}: {kind}\n" for column, kind in types.items())
        (folder / f"{name}.yml").write_text(f"columns:\n{columns}", encoding="utf-8")


def main() -> None:
    """Write a project, to look at or to try something on."""
    parser = argparse.ArgumentParser(description="Write a layered project of N models.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--models", type=int, default=500)
    arguments = parser.parse_args()
    print(f"{len(write_project(arguments.folder, arguments.models))} models in {arguments.folder}")


if __name__ == "__main__":
    main()
