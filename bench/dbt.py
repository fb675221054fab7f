"""What `sqb dbt build` costs when nothing changed, against `dbt run` of the same dbt project, one after the other.

The dbt project is generated and built once for real on Spark, by `sqb dbt build`. dbt is the one in .venv-dbt, which
scripts/dbt_env.py makes, or the one that --dbt names. With --keep the built project stays.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path

from noop import markdown, sqb, started_jvm, table, timed
from sqb.spark.session.jars import PACKAGES

ROOT = Path(__file__).resolve().parent.parent
HEADINGS = ("models", "command", "median s", "min s", "JVM started", "faster")
WIDTH = 20

PROFILE = """bench:
  target: dev
  outputs:
    dev:
      type: spark
      method: session
      schema: analytics
      host: NA
      threads: 4
      server_side_parameters:
        spark.master: local[2]
        spark.sql.catalogImplementation: in-memory
        spark.jars.packages: "{packages}"
        spark.sql.extensions: org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions
        spark.sql.defaultCatalog: lake
        spark.sql.catalog.lake: org.apache.iceberg.spark.SparkCatalog
        spark.sql.catalog.lake.type: jdbc
        spark.sql.catalog.lake.uri: "jdbc:sqlite:{lake}/catalog.db?journal_mode=WAL&busy_timeout=30000"
        spark.sql.catalog.lake.jdbc.schema-version: V1
        spark.sql.catalog.lake.warehouse: "{lake}/data"
        spark.ui.enabled: "false"
        spark.sql.shuffle.partitions: "2"
"""


def write_project(folder: Path, models: int, tables: int, dbt: Path) -> None:
    """Layers of models, each on one of the layer above it; the first `tables` of them are tables, the rest views."""
    lake = folder / "lake"
    files = {
        "sqlbuild_project.toml": f'name = "bench"\n[dbt]\nproject_dir = "dbt"\ncommand = "{dbt}"\n',
        "dbt/dbt_project.yml": "name: bench\nprofile: bench\nmodels:\n  +file_format: iceberg\n",
        "dbt/profiles.yml": PROFILE.format(packages=",".join(PACKAGES), lake=lake),
        "dbt/seeds/start.csv": "id,value\n1,10\n2,20\n",
        "dbt/macros/twice.sql": "{% macro twice(x) %}({{ x }} + {{ x }}){% endmacro %}",
    }
    for number in range(models):
        kind = "table" if number < tables else "view"
        read = f"m_{number - WIDTH:04}" if number >= WIDTH else "start"
        config = f"{{{{ config(materialized='{kind}') }}}}"
        text = f"{config}\nselect id, {{{{ twice('value') }}}} as value from {{{{ ref('{read}') }}}}\n"
        files[f"dbt/models/layer_{number // WIDTH:02}/m_{number:04}.sql"] = text
    files["dbt/seeds/properties.yml"] = "seeds:\n  - name: start\n    config: {file_format: iceberg}\n"
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")


def main() -> None:
    """Read the arguments, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=300)
    parser.add_argument("--tables", type=int, default=20, help="how many of them are tables; the rest are views")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--dbt", type=Path, default=ROOT / ".venv-dbt" / "bin" / "dbt")
    parser.add_argument("--keep", type=Path, help="build here and leave it there")
    given = parser.parse_args()
    with nullcontext(given.keep) if given.keep else tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        if not (folder / "sqlbuild_project.toml").exists():
            write_project(folder, given.models, given.tables, given.dbt)
        build = [sqb(), "dbt", "build"]
        print(f"first build: {timed(build, folder).seconds:.1f} s", file=sys.stderr, flush=True)
        quick = [timed(build, folder).seconds for _ in range(given.repeats)]
        jvm, found = started_jvm(build, folder)
        assert found["dbt"]["commands"] == 0, found["dbt"]
        places = ["--project-dir", "dbt", "--profiles-dir", "dbt", "--target-path", str(folder / ".sqb/dbt/target")]
        run = timed([str(given.dbt), "run", *places, "--log-path", str(folder / ".sqb/dbt/logs")], folder).seconds
    median = statistics.median(quick)
    rows = [
        (str(given.models), "sqb dbt build", f"{median:.3f}", f"{min(quick):.3f}", jvm, f"{run / median:.0f}x"),
        (str(given.models), "dbt run", f"{run:.1f}", f"{run:.1f}", "yes", "1x"),
    ]
    print(table(HEADINGS, rows))
    print()
    print(markdown(f"bench/dbt.py --models {given.models} --tables {given.tables}", HEADINGS, rows))


if __name__ == "__main__":
    main()
