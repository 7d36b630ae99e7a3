# Each target fills .venv by itself, and is quick when nothing changed.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.filled
# Each worker begins with half of the files, so that it compiles once what the tests of a file share.
# Two workers fill two cores: threads of linear algebra would only wait for each other.
# What is skipped is shown with its reason.
PYTEST := OPENBLAS_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist worksteal -rs

.PHONY: setup demo test test-browser test-engines test-arviz check cover slow lint docs audit bench reproduce calibration mechanisms clean

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Tacit needs Python 3.11 or later; say make PYTHON=python3.12 ..."; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --editable ".[jax,postgres,serve,signing]" --group dev --constraint constraints.txt
	@touch $@

demo: $(STAMP)
	$(BIN)/tacit demo

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint
	$(PYTEST)

# report.html in Debian's Chromium, which is installed if it is missing (as root); `make test` runs
# these tests too where it is there. The result of a run is in docs/browser.md.
test-browser: $(STAMP)
	command -v chromium || (apt-get update && apt-get install --yes --no-install-recommends chromium)
	OPENBLAS_NUM_THREADS=1 $(BIN)/pytest -v -rs tests/browser

# Tables of real engines: Debian's PostgreSQL and Java 17, which are installed if they are missing (as
# root), and the drivers; and workers on Ray. `make test` runs these tests too where all is there. The result of a run
# is in docs/engines.md.
test-engines: $(STAMP)
	test -n "$$(ls /usr/lib/postgresql/*/bin/initdb /usr/lib/jvm/java-17-openjdk-*/bin/java 2>/dev/null | sed -n 2p)" || \
	  (apt-get update && apt-get install --yes --no-install-recommends postgresql openjdk-17-jre-headless)
	$(BIN)/python -m pip install --quiet --editable ".[jax,postgres,spark,cluster]" --constraint constraints.txt
	OPENBLAS_NUM_THREADS=1 $(BIN)/pytest -v -rs tests/engines tests/wall/steps/test_workers.py

# What touches ArviZ, with ArviZ 1.x, which needs Python 3.12: make test-arviz PYTHON312=/path/to/python3.12
PYTHON312 ?= python3.12
test-arviz:
	test -x .venv312/bin/python || $(PYTHON312) -m venv .venv312
	.venv312/bin/python -m pip install --quiet --upgrade 'pip>=25.1'
	grep -v '^arviz' constraints.txt > .venv312/constraints.txt
	.venv312/bin/python -m pip install --quiet --editable ".[jax,postgres,serve,signing]" --group dev 'arviz>=1' --constraint .venv312/constraints.txt
	OPENBLAS_NUM_THREADS=1 .venv312/bin/pytest -q tests/posterior tests/test_report.py tests/test_plots.py tests/test_public.py

# For the inner loop, in under 90 seconds: what a change to the vocabulary or the wall breaks.
check: lint
	$(PYTEST) -q tests/sources tests/wall tests/test_fitting.py

# Which lines the tests run. Tracing takes as long again as the tests themselves.
cover: $(STAMP)
	$(PYTEST) --cov --cov-report=term

# The documentation site, in site/: open site/index.html. A warning is an error, and no network is needed.
docs: $(STAMP)
	$(BIN)/python tools/reference_pages.py
	$(BIN)/zensical build --clean --strict

# Attacks at full size; the result is committed under docs/.
audit: $(STAMP)
	$(BIN)/tacit audit --output docs/audit.md

# Side by side with peers, as ratios in one run.
bench: $(STAMP)
	$(BIN)/python benchmarks/noise.py
	$(BIN)/python benchmarks/lease_step.py --steps 32641
	$(BIN)/python benchmarks/hmm.py
	$(BIN)/python benchmarks/logistic.py
	$(BIN)/python benchmarks/remote.py

# The papers' figures with their settings; the results are committed under docs/.
reproduce: $(STAMP)
	$(BIN)/python reproductions/accounting.py
	$(BIN)/python reproductions/conjugate.py
	$(BIN)/python reproductions/war_logs.py
	$(BIN)/python reproductions/privacy_for_free.py
	$(BIN)/python reproductions/vips.py

# What `make test` leaves out for its length: tests marked slow, wherever they are.
slow: $(STAMP)
	$(PYTEST) -m slow tests

# Coverage of the intervals at full size; the result is committed under docs/.
calibration: slow
	$(BIN)/python benchmarks/calibration.py

# Errors and coverage of every mechanism, and of posterior means beside the papers' mechanism;
# the results are committed under docs/.
mechanisms: $(STAMP)
	$(BIN)/python benchmarks/which_mechanism.py
	$(BIN)/python benchmarks/posterior_means.py

clean:
	rm -rf .venv tacit-demo
