"""A lake that a team shares, as people use it: PostgreSQL, an object store, and no Spark for what needs none."""

from __future__ import annotations

from pathlib import Path

from cli.conftest import SEEDS, new_project
from support.object_store import Store
from support.postgres import PASSWORD, Server

PROJECT = """
name = "shop"
[virtual]
enabled = true
[connections.team.catalog]
uri = "postgresql://postgres:@@ENV:LAKE_WORD@127.0.0.1:@@ENV:LAKE_PORT/DATABASE"
warehouse = "s3://BUCKET/lake"
[connections.team.catalog.options]
"s3.endpoint" = "@@ENV:STORE"
"s3.access-key-id" = "@@ENV:STORE_ID"
"s3.secret-access-key" = "@@ENV:STORE_WORD"
"""


def test_a_project_from_its_first_build_to_its_janitor(tmp_path: Path, postgres: Server, object_store: Store) -> None:
    database, bucket = postgres.new_database(), object_store.new_bucket()
    text = PROJECT.replace("DATABASE", database).replace("BUCKET", bucket)
    folder = new_project(tmp_path / "shop", {**SEEDS, "sqlbuild_project.toml": text})
    env = {
        "LAKE_WORD": PASSWORD,
        "LAKE_PORT": str(postgres.port),
        "STORE": object_store.endpoint,
        "STORE_ID": object_store.options["s3.access-key-id"],
        "STORE_WORD": object_store.options["s3.secret-access-key"],
        "SQB_STATE": postgres.url(database),
    }
    assert folder.here("state", "init", env=env).code == 0
    built = folder.here("build", env=env)
    assert built.code == 0 and "Done: 2 ran, 0 skipped, 0 failed (3 rows" in built.out
    assert "Nothing to do: 2 unchanged" in folder.here("plan", env=env).out
    folder.write({"seeds/places.csv": "id,place\n1,Paris\n2,Rome\n"})
    changed = folder.here("build", "--virtual-env", "pr", env=env)
    assert changed.code == 0 and "Virtual environment pr: finalized" in changed.out
    cleaned = folder.here("janitor", env=env)
    assert cleaned.code == 0 and "Freed" in cleaned.out
    # What is wrong is told with the connection's name, and no word of a secret, whoever asks for more.
    wrong = folder.here("plan", "--debug", env={**env, "LAKE_WORD": "s3cr3t-wrong"})
    assert wrong.code == 1 and "error[SQB-N211]: the catalog of the connection team" in wrong.err
    nowhere = folder.here("build", "--force", "--debug", env={**env, "STORE": "http://127.0.0.1:1"})
    assert nowhere.code == 1 and "error[SQB-N203]: the warehouse" in nowhere.out + nowhere.err
    missing = folder.here("plan", env={**env, "STORE_WORD": None})
    assert missing.code == 2 and "needs the environment variable STORE_WORD" in missing.err
    assert "Nothing to do" not in missing.out
    message = "".join(done.out + done.err for done in (built, changed, cleaned, wrong, nowhere, missing))
    remaining = b"".join(path.read_bytes() for path in (tmp_path / "shop" / ".sqb").rglob("*") if path.is_file())
    for secret in (PASSWORD, env["STORE_WORD"], "s3cr3t-wrong"):
        assert secret not in message and secret.encode() not in remaining
    assert folder.here("build", env=env).code == 0, "and the next build goes on"
