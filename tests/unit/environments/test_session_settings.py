"""Settings of Spark's sessions are part of a version: environments with other settings do not share a table."""

from __future__ import annotations

from dataclasses import replace

from sqb.environments.versions import compute_settings_token, compute_versions
from sqb.project.config.session_settings import RESULT_SETTINGS
from unit.plan.worlds import node, project

WORLD = project(node("seeds.s", kind="seed"), node("s.a", "seeds.s"), node("s.b", "s.a"))
ZONE = {**RESULT_SETTINGS, "spark.sql.session.timeZone": "Asia/Tokyo"}


def test_without_a_word_in_the_project_versions_are_what_they_were() -> None:
    plain = compute_versions(WORLD)
    assert compute_versions(replace(WORLD, session=RESULT_SETTINGS)) == plain
    assert compute_settings_token(WORLD.nodes["s.a"], replace(WORLD, session=RESULT_SETTINGS)) == ""


def test_another_setting_is_another_version_of_every_model_and_of_no_seed() -> None:
    plain, other = compute_versions(WORLD), compute_versions(replace(WORLD, session=ZONE))
    assert {name for name in plain if plain[name] != other[name]} == {"s.a", "s.b"}
