# Everything runs in .venv, which the first target that needs it makes.
.DEFAULT_GOAL := help
# Compiled Python is kept, whatever the machine's environment says: hundreds of processes import Spark's and Iceberg's
# packages, and compiling these takes twice as long as running them.
unexport PYTHONDONTWRITEBYTECODE
.PHONY: help venv demo ready test test-fast ends compat soak mutants tpc load cluster lint docs docs-output recording dist sbom licenses bench clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-11s  %s\n", $$1, $$2 }' Makefile

venv: ## Make .venv from requirements.lock (PYTHON=… picks the Python), so that .venv/bin/sqb is the command
	@PYTHON="$(PYTHON)" sh scripts/venv.sh

demo: venv ## Build the example project in .demo, build it again, change a model, build what that affects
	@bash scripts/demo.sh

ready: venv ## Make and fetch what the test suite needs besides .venv, once: make test does it too
	.venv/bin/python scripts/prepare_spark.py
	.venv/bin/python scripts/dbt_env.py
	.venv/bin/python scripts/rest_catalog.py
	.venv/bin/python scripts/dagster_env.py
	.venv/bin/python scripts/airflow_env.py
	.venv/bin/python scripts/tpc_env.py
	.venv/bin/python scripts/docs_env.py
	.venv/bin/python scripts/dist_env.py

test: ready ## Run the whole test suite, and list the 20 slowest tests
	.venv/bin/python -m pytest tests -rs -n 3 --dist loadfile --no-loadscope-reorder --durations=20

test-fast: venv ## Run the tests that start no Spark, about a minute, properties with a tenth of their examples, without the SBOM
	SQB_FAST_TESTS=1 .venv/bin/python -m pytest tests/unit -q -n 3 --dist worksteal --deselect tests/unit/test_licenses.py::test_sbom

ends: venv ## Test with the lowest and the highest versions that pyproject.toml allows (half an hour and 2 GB; ENDS=lowest for one)
	.venv/bin/python scripts/version_ends.py $(ENDS)

compat: venv ## Test with every Spark, Python 3.11 to 3.13 and Java 17 and 21 that are here (minutes each; ONLY="4.0/3.11/17" for some)
	.venv/bin/python scripts/compat.py $(ONLY)

soak: venv ## Random queries and changes against full rebuilds, 300 builds killed at random, environments (hours; PROJECTS=… BUILDS=… STORIES=… TABLES=…)
	SQB_EXACTNESS_PROJECTS=$(or $(PROJECTS),400) .venv/bin/python -m pytest tests/properties/test_exactness.py -s --timeout=0
	SQB_CRASH_BUILDS=$(or $(BUILDS),300) .venv/bin/python -m pytest tests/properties/test_crash_soak.py -s --timeout=0
	SQB_ENVIRONMENT_STORIES=$(or $(STORIES),50) .venv/bin/python -m pytest tests/properties/test_environments.py -s --timeout=0
	SQB_ENVIRONMENT_EXAMPLES=5000 .venv/bin/python -m pytest tests/unit/environments/test_machine.py --timeout=0
	SQB_FILE_STORIES=$(or $(TABLES),100) .venv/bin/python -m pytest tests/properties/test_file_changes.py --timeout=0
	SQB_SOUNDNESS_SEEDS=20000 .venv/bin/python -m pytest tests/properties/test_soundness.py --timeout=0
	SQB_RULES_SEEDS=5000 .venv/bin/python -m pytest tests/properties/test_delta_rules.py --timeout=0

mutants: venv ## One mistake after another in the rules of following changes: each must fail a test (RULES="rows outer" for some)
	.venv/bin/python scripts/mutants.py $(RULES)

tpc: ready ## TPC-H and TPC-DS with rows, every table changed alone and all at once (hours; ONLY=q03:lineitem MODES=… SEED=…)
	SQB_TPC_ONLY="$(or $(ONLY),tpch tpcds)" $(if $(MODES),SQB_TPC_MODES=$(MODES)) SQB_TPC_SEED=$(or $(SEED),1) \
		.venv/bin/python -m pytest tests/tpc/test_rows.py -s

load: venv ## Twenty builds at once on one PostgreSQL catalog and one Spark server, twice (minutes; BUILDS=…)
	SQB_LOAD_BUILDS=$(or $(BUILDS),20) .venv/bin/python -m pytest tests/cluster/test_load.py -s --timeout=0 --durations=3

cluster: venv ## Every behaviour of tests/cases on Spark Connect and on a standalone cluster (about an hour)
	SQB_EVERY_CASE=1 .venv/bin/python -m pytest tests/cluster -k behaviours -s --timeout=0

lint: venv ## Check style, types, import layers and the Dockerfile
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/lint-imports
	.venv/bin/hadolint Dockerfile

docs: venv ## Build the documentation as a site, in build/site
	SQB_ALL_REQUIRED=1 .venv/bin/python scripts/docs_env.py
	.venv-docs/bin/python scripts/build_docs.py

dist: venv ## Build the wheel and the sdist, in dist
	SQB_ALL_REQUIRED=1 .venv/bin/python scripts/dist_env.py
	.venv-dist/bin/python -m build --no-isolation --outdir dist .

sbom: venv ## Write what an installation consists of as CycloneDX, in build/sbom.json
	SQB_ALL_REQUIRED=1 .venv/bin/python scripts/docs_env.py
	.venv/bin/python scripts/make_sbom.py

licenses: venv ## Write the licences of what sqb needs to docs/licenses.md
	.venv/bin/python scripts/make_licenses.py

docs-output: venv ## Run the commands of all pages of the documentation and write what they print into them (PAGES=… for some)
	.venv/bin/python scripts/docs_output.py $(PAGES)

recording: venv ## Record a session in a terminal as a picture that moves, docs/images/terminal.svg
	.venv/bin/python scripts/make_recording.py

bench: venv ## Measure builds with nothing to do, and first builds against bare Spark (takes long)
	.venv/bin/python bench/noop.py
	.venv/bin/python bench/first_build.py

clean: ## Remove .venv, .venv-dbt and the like, .demo and all caches
	rm -rf .venv .venv-dbt .venv-dagster .venv-airflow .venv-tpc .venv-docs .venv-dist .venv-lowest .venv-highest .venv-compat .demo .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache build dist src/*.egg-info
	find src tests bench -name __pycache__ -type d -prune -exec rm -rf {} +
