"""Seeds as their files say: drafts, with every mistake reported.

Apart from those of models: an edited model is compiled without reading seeds, nor YAML.
"""

from __future__ import annotations

from pathlib import Path

from sqb.compile.drafts import derive_relation
from sqb.compile.resolve import Draft
from sqb.errors.base import Errors
from sqb.names import At, Relation
from sqb.project.seeds import load_seed
from sqb.project.values import Target


def read_seed(root: Path, path: str, target: Target, errors: Errors) -> Draft:
    """A seed; one that is reported as wrong has no rows, but still the name that others call it by."""
    seed = load_seed(root, root / path, errors)
    if seed is None:
        name = Path(path).stem
        relation = Relation(target.schema.replace("{folder}", "seeds"), name)
        return Draft(f"seeds.{name}", "seeds", "seed", "seed", relation, path, At(path), {})
    relation = derive_relation(path, "seeds", seed.name, target, seed.settings, errors)
    return Draft(f"seeds.{seed.name}", "seeds", "seed", "seed", relation, path, At(path), seed.settings, seed=seed)
