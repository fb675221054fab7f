"""The names of physical tables and of the views of environments."""

from __future__ import annotations

import re

from sqb.errors.environments import BadEnvironmentName
from sqb.names import Relation
from sqb.project.config.virtual import NAME_RULE, is_environment_name
from sqb.project.config.virtual import PHYSICAL as PHYSICAL

_HASH_LENGTH = 8
_VERSION = re.compile(r"(.+)__v_[0-9a-f]+")


def build_physical_relation(logical: Relation, version_hash: str) -> Relation:
    """Where a version of the model whose relation is `logical` in direct mode has its rows."""
    return Relation(f"{logical.schema}__{PHYSICAL}", f"{logical.name}__v_{version_hash[:_HASH_LENGTH]}")


def build_logical_relation(logical: Relation, environment: str, unsuffixed: str | None) -> Relation:
    """The view of an environment on a model."""
    if environment == unsuffixed:
        return logical
    return Relation(f"{logical.schema}__{environment}", logical.name)


def parse_logical_relation(physical: Relation) -> Relation | None:
    """Parse the model's relation in direct mode from a physical one; None for any other relation."""
    match = _VERSION.fullmatch(physical.name)
    if match is None or not physical.schema.endswith(f"__{PHYSICAL}"):
        return None
    return Relation(physical.schema.removesuffix(f"__{PHYSICAL}"), match[1])


def is_physical(relation: Relation) -> bool:
    """Whether a relation is in a schema of versions, whoever made it."""
    return relation.schema.endswith(f"__{PHYSICAL}")


def check_environment_name(name: str) -> None:
    """Refuse the name of an environment that cannot be part of a schema's name."""
    if not is_environment_name(name):
        raise BadEnvironmentName(f'"{name}" cannot be the name of a virtual environment', hint=NAME_RULE)
