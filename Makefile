# Every target creates the environment it needs; nothing has to be done before them.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
UV     := $(BIN)/uv pip install --quiet --python $(BIN)/python
# Certificates come from the machine, as everywhere else.
export UV_SYSTEM_CERTS := true

.DEFAULT_GOAL := help
# The tests that read and write rows; they also run on the oldest PySpark that is supported.
ROWS   := $(addprefix tests/spark/scan/test_,scan.py partition_values.py) tests/spark/write/test_writer.py \
	tests/spark/source/test_source.py \
	$(addprefix tests/spark/table/test_,append.py overwrite.py change_feed.py delete.py merge.py)
OLDEST := .venvs/oldest
# Apache Hudi's own Spark bundles, fetched from Maven Central when they are needed.
HUDI   := .venvs/hudi-jvm
DELTA  := .venvs/delta-jvm
AIRFLOW := .venvs/airflow
# How long `make fuzz` looks, and `make soak` lasts.
MINUTES ?= 5

.PHONY: help demo test test-connect test-oldest unit fuzz soak check format bench bench-delta-spark compat compat-jvm interop interop-jvm airflow clean java

help: ## Show the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(VENV)/.ready: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or later is needed, $(PYTHON) is older. Name one with: make PYTHON=python3.11 …"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || \
		{ echo "Python's venv module is needed. On Debian: apt-get install python3-venv"; exit 1; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	@echo "Installing Halocline and its tools into $(VENV) (Spark alone is about 450 MB) …"
	@$(UV) --group dev --editable '.[all]'
	@touch $@

java:
	@major=$$(java -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1); \
	test "$${major:-0}" -ge 17 || \
		{ echo "Java 17 or later is needed, found: $${major:-none}. On Debian: apt-get install openjdk-17-jre-headless"; exit 1; }

demo: java $(VENV)/.ready ## Run the main job on this machine, in a few minutes
	@$(BIN)/halocline demo

# Two processes, each with a session of its own once it needs one; one that has no tests left takes some of the other's.
PYTEST := PYTHONHASHSEED=0 $(BIN)/python -m pytest --numprocesses 2 --dist worksteal

test: java $(VENV)/.ready ## Run all tests, and some of those on rows on Spark Connect as well
	@$(PYTEST) tests src --ignore tests/lint
	@$(MAKE) --no-print-directory test-connect

test-connect: java $(VENV)/.ready ## Run a choice of the tests on rows on Spark Connect
	@HALOCLINE_TEST_SPARK=connect $(PYTEST) tests/spark -m connect

$(OLDEST)/.ready: pyproject.toml $(VENV)/.ready
	@$(BIN)/uv venv --quiet --allow-existing --python $(BIN)/python $(OLDEST)
	@$(BIN)/uv pip install --quiet --python $(OLDEST)/bin/python --group dev --editable '.[all]' 'pyspark==4.0.*'
	@touch $@

test-oldest: java $(OLDEST)/.ready ## Run the tests on rows on the oldest PySpark that is supported
	@$(OLDEST)/bin/python -m pytest $(ROWS)

unit: $(VENV)/.ready ## Run the tests that need no JVM
	@$(BIN)/python -m pytest tests/unit tests/property -m "not slow and not spark" --numprocesses 2

fuzz: $(VENV)/.ready ## Run the property tests with fresh seeds, for MINUTES=5
	@$(BIN)/python -m tests.fuzz $(MINUTES)

soak: $(VENV)/.ready ## Three coordinators on one PostgreSQL under random faults, for MINUTES=5; then some that are broken on purpose
	@$(BIN)/python -m tests.fleet.soak $(MINUTES)
	@$(BIN)/python -m tests.fleet.soak 1 --broken grace

check: $(VENV)/.ready ## Lint, type-check, and check layers, dependencies, names and the package
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/lint-imports
	@$(BIN)/deptry src
	@$(BIN)/python -m pytest tests/lint --quiet

format: $(VENV)/.ready ## Format the code and fix what can be fixed
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

bench: java $(VENV)/.ready ## Measure every promise against a peer in the same run
	@for each in bench/[a-z]*.py; do echo "== $$each"; $(BIN)/python $$each || exit 1; done

# Delta Spark has no release for the newest Spark yet; its jars come from Maven Central.
$(DELTA)/.ready: pyproject.toml $(VENV)/.ready
	@$(BIN)/uv venv --quiet --allow-existing --python $(BIN)/python $(DELTA)
	@$(BIN)/uv pip install --quiet --python $(DELTA)/bin/python --group dev --editable '.[all]' 'pyspark==4.2.*'
	@touch $@

bench-delta-spark: java $(DELTA)/.ready ## Measure every row of Delta tables beside Delta Spark in one session
	@$(DELTA)/bin/python bench/delta_spark.py --full

compat: $(VENV)/.ready ## Try real old releases of other clients and compare with the predictions
	@$(BIN)/python -m tests.compat

compat-jvm: java $(HUDI)/.ready ## Try Apache Hudi's bundles and hudi-rs on Hudi tables, Delta Spark from 0.8 on, and Trino
	@HALOCLINE_HUDI_JVM=$(CURDIR)/$(HUDI) $(BIN)/python -m tests.compat --jvm
	@$(BIN)/python -m tests.compat --delta-spark
	@$(BIN)/python -m tests.compat --trino

interop: java $(VENV)/.ready ## Exchange tables with other implementations, both ways
	@$(BIN)/python -m pytest tests/conformance tests/interop

$(HUDI)/.ready: pyproject.toml $(VENV)/.ready
	@$(BIN)/uv venv --quiet --allow-existing --python $(BIN)/python $(HUDI)
	@$(BIN)/uv pip install --quiet --python $(HUDI)/bin/python 'pyspark==3.5.*' setuptools
	@touch $@

interop-jvm: java $(HUDI)/.ready ## Exchange tables with Apache Hudi's own Spark bundles and with Delta Spark, both ways
	@HALOCLINE_DELTA_JVM=1 HALOCLINE_HUDI_JVM=$(CURDIR)/$(HUDI) $(BIN)/python -m pytest tests/interop_jvm

# Airflow has many dependencies with limits of their own, so it has an environment of its own, which has no Halocline.
$(AIRFLOW)/.ready: $(VENV)/.ready
	@$(BIN)/uv venv --quiet --allow-existing --python $(BIN)/python $(AIRFLOW)
	@$(BIN)/uv pip install --quiet --python $(AIRFLOW)/bin/python 'apache-airflow==3.1.*'
	@touch $@

airflow: $(AIRFLOW)/.ready ## Run the DAGs of examples/ in Airflow's own test mode
	@HALOCLINE_AIRFLOW=$(CURDIR)/$(AIRFLOW) $(BIN)/python -m pytest tests/interop/test_airflow.py

clean: ## Remove the environments and caches
	rm -rf $(VENV) .venvs .mypy_cache .ruff_cache .pytest_cache .hypothesis spark-warehouse
