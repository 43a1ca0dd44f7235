# Everything happens in .venv, from locked requirements; the stamps in it make a second run immediate.
# Needs make and Python 3.11 to 3.14 with venv (Debian and Ubuntu: apt install make python3-venv).

PYTHON ?= python3
# Processes that run the tests, at most four; 0 is one process without xdist.
WORKERS ?= $(shell n=$$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2); echo $$((n + 1)))
# A uv to install with; empty: the locked one is fetched; "no": pip installs.
UV ?=
# More arguments for pytest, e.g. make test PYTEST_ARGS="-k style -x"
PYTEST_ARGS ?=
# More arguments for the benchmarks, e.g. make bench BENCH_ARGS="--parts http --rounds 5"
BENCH_ARGS ?=
# More arguments for the tables of the papers, e.g. make papers PAPERS_ARGS="--only dfop1,odm2"
PAPERS_ARGS ?=
# Vulnerabilities that do not concern Onepass, each with a reason here, e.g. AUDIT_IGNORE := PYSEC-2026-1
AUDIT_IGNORE :=
# More arguments for the lock, e.g. make lock LOCK_ARGS=--upgrade
LOCK_ARGS ?=

# What serving may be licensed under, as packages say it: permissive, and copyleft no stronger than LGPL or MPL. A text
# that is new here is read by a person before it is added.
LICENCES := 0BSD;Apache-2.0;Apache Software License;BSD License;BSD-2-Clause;BSD-3-Clause;MIT;MIT \
License;PSF-2.0;Python Software Foundation License;ISC;ISC License (ISCL);Mozilla Public License 2.0 (MPL \
2.0);MPL-2.0;MIT OR Apache-2.0;Apache-2.0 OR BSD-2-Clause;Apache-2.0 AND BSD-2-Clause;BSD-2-Clause AND Apache-2.0 \
WITH LLVM-exception;BSD-3-Clause AND 0BSD AND MIT AND Zlib AND CC0-1.0

BIN := .venv/bin
PY := $(BIN)/python
# The lock must not depend on how this machine reaches the registry.
LOCK := env -u UV_DEFAULT_INDEX -u UV_INDEX -u UV_INDEX_URL -u UV_EXTRA_INDEX_URL -u UV_FIND_LINKS $(BIN)/uv pip compile \
	--no-config --quiet --universal --python-version 3.11 --fork-strategy fewest --generate-hashes \
	--no-header --no-annotate $(LOCK_ARGS)
PYTEST := $(PY) -m pytest -n $(WORKERS) --maxprocesses 4 --dist loadfile --no-loadscope-reorder
# The pip of .venv, else that of the Python that makes it: installing another takes as long as all packages.
PIP := $$($(PY) -c 'import pip' 2>/dev/null && echo $(PY) -m pip || echo $(PYTHON) -m pip --python $(PY)) \
	--disable-pip-version-check --no-input
HAVE_PIP := { $(PIP) --version || $(PY) -m ensurepip; } >/dev/null 2>&1
UV_LOCK := service/first_run/uv-requirements.txt
# A phase is one line: what it does as it begins, its seconds as it ends.
begin = begun=$$(date +%s); printf '%s: ' "$(1)"
end = echo "$$(($$(date +%s) - begun)) s" && touch $@
# By uv, else by pip; uv does not know pip's configuration, so it may find nothing where pip does. An installation
# that was cut off may leave packages without all their files, which neither notices: the next one reinstalls everything.
define install
again=; if [ -e .venv/installing ]; then again=yes; fi; touch .venv/installing; \
uv='$(UV)'; \
	if [ -z "$$uv" ]; then $(PIP) install --quiet --no-compile $${again:+--force-reinstall} --require-hashes -r $(UV_LOCK) \
		&& uv=$(BIN)/uv || uv=no; fi; \
	if [ "$$uv" = no ] || ! UV_HTTP_RETRIES=$${UV_HTTP_RETRIES:-1} \
		"$$uv" pip install --quiet $${again:+--reinstall} --python $(PY) $(1); then \
		[ "$$uv" = no ] || echo "uv has failed, pip installs" >&2; \
		$(PIP) install --quiet --no-compile $${again:+--force-reinstall} $(1) || { echo "Packages come from where pip's configuration says \
	(PIP_INDEX_URL names another index); when that can be reached, run make again." >&2; exit 1; }; \
	fi; rm .venv/installing
endef

# Bytecode is written even where this is set: without it, every start takes twice as long.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
# Every target with a plain name is one, not a file.
.PHONY: $(shell awk -F ':' '/^[a-z][a-z-]*:/ {print $$1}' Makefile)

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-15s %s\n", $$1, $$2}' Makefile

run: setup ## set everything up and serve on 127.0.0.1:8000 (ONEPASS_* variables apply)
	@exec $(BIN)/onepass serve

setup: .venv/stamp-kernels ## what run needs, without running it

test: test-setup lint ## set everything up, lint, check types and imports, run the tests; pages want a browser (apt install chromium)
	$(PYTEST) -m "not slow" $(PYTEST_ARGS)

test-all: test-setup lint ## the same with the tests that are slow by nature: browsers, proxies, storms, installing, whole lives
	$(PYTEST) $(PYTEST_ARGS)

test-setup: .venv/stamp-test .venv/stamp-kernels ## what tests and benchmarks need, without running them

lint: test-setup ## ruff, mypy, import contracts; FIX=1 lets ruff rewrite what it can
	$(PY) -m ruff check $(if $(FIX),--fix) .
	$(PY) -m ruff format $(if $(FIX),,--check) .
	$(PY) -m mypy
	$(BIN)/lint-imports --no-logo

test-faults: test-setup ## storms of kills and failovers, two minutes each, and histories that one log must explain
	STORM_S=120 $(PY) -m pytest -n 0 -s tests/faults/storms $(PYTEST_ARGS)

test-image: test-setup ## image and compose file, built and run by buildah, podman and podman-compose (root; apt install buildah podman runc debootstrap)
	BASE="$(BASE)" IMAGE="$(IMAGE)" STORE="$(STORE)" $(PY) -m pytest -n 0 -s tests/image $(PYTEST_ARGS)

bench: test-setup ## the main figures beside echoes and targets, in five minutes; JSON in tests/benchmarks/out
	$(PY) -m tests.benchmarks.bench $(BENCH_ARGS)

bench-peers: test-setup ## Onepass beside river, CapyMOA, Vowpal Wabbit, FastAPI with river, MLServer, each installed when asked for
	$(PY) -m tests.benchmarks.peers $(BENCH_ARGS)

bench-auto: test-setup ## auto beside every other algorithm and baselines, stream by stream; BENCH_ARGS=--contenders: river and CapyMOA too
	$(PY) -m tests.benchmarks.auto $(BENCH_ARGS)

bench-drift: test-setup ## what the drift tests detect, how late, with how many false alarms
	$(PY) -m tests.benchmarks.drift $(BENCH_ARGS)

bench-isolation: test-setup ## what a row of one model waits for while another is sent heavy work
	$(PY) -m tests.benchmarks.isolation $(BENCH_ARGS)

bench-scale: test-setup ## services behind HAProxy: CPU per row of 1, 2 and 4 hashed and 2 in turn; one killed and started (apt install haproxy)
	$(PY) -m tests.benchmarks.scale $(BENCH_ARGS)

bench-sizing: test-setup ## the figures of deploy/sizing.md: CPU per row, bytes of a model in memory and in the store, by algorithm
	$(PY) -m tests.benchmarks.sizing $(BENCH_ARGS)

papers: test-setup ## the tables of the five papers next to ours, as HTML and Markdown; PAPERS_ARGS=--quick, PAPERS_DATA=<folder of the data sets>
	$(PY) -m tests.papers $(PAPERS_ARGS)

lock: .venv/stamp-test ## rewrite the lock files from pyproject.toml: tests, this machine, image, uv
	$(LOCK) pyproject.toml --extra replay --group dev --output-file tests/requirements.txt
	$(LOCK) pyproject.toml --extra replay --group build --constraint tests/requirements.txt --output-file service/requirements.txt
	$(LOCK) pyproject.toml --constraint tests/requirements.txt --output-file docker/requirements.txt
	$(LOCK) --group build --constraint tests/requirements.txt --output-file docker/build-requirements.txt
	$(LOCK) --group installer --constraint tests/requirements.txt --output-file service/first_run/uv-requirements.txt

audit: test-setup ## licences of all packages, the image's bill of materials (CycloneDX, in dist), and known vulnerabilities (network)
	$(BIN)/pip-licenses --from=mixed --order=license
	@$(BIN)/pip-licenses --from=mixed --allow-only "$(LICENCES)" \
		--packages $$(sed -n 's/^\([a-z0-9.-]*\)==.*/\1/p' docker/requirements.txt) > /dev/null
	@echo "What serving needs has licences of the list."
	mkdir -p dist
	$(BIN)/cyclonedx-py requirements docker/requirements.txt --pyproject pyproject.toml --output-reproducible \
		--output-file dist/onepass.cdx.json
	@$(BIN)/pip-audit --strict --disable-pip --require-hashes --progress-spinner off $(addprefix --ignore-vuln ,$(AUDIT_IGNORE)) \
		-r tests/requirements.txt -r service/first_run/uv-requirements.txt $(AUDIT_ARGS) || { echo "make audit: either a package \
	has the vulnerabilities above (make lock LOCK_ARGS='--upgrade-package NAME', or AUDIT_IGNORE in the Makefile), or the database \
	could not be asked, and nothing is known." >&2; exit 1; }

clean: ## remove .venv and caches (never onepass-data)
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache build dist
	find core service tests -name __pycache__ -type d -prune -exec rm -rf {} +

# A usable .venv is kept, whoever made it; a broken or too old one is made anew.
.venv/stamp-venv:
	@check='import sys, ensurepip, venv; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))'; \
	version='import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))'; \
	if $(PY) -c "$$version" 2>/dev/null; then \
		$(HAVE_PIP); touch $@; exit; fi; \
	if ! $(PYTHON) -c "$$version" 2>/dev/null; then \
		echo "Onepass needs Python 3.11 to 3.14; '$(PYTHON)' is $$($(PYTHON) --version 2>/dev/null || echo missing)." >&2; \
		echo "Name another one: make PYTHON=python3.12 run" >&2; exit 1; fi; \
	if ! $(PYTHON) -c "$$check" 2>/dev/null; then \
		echo "'$(PYTHON)' lacks venv or ensurepip. Debian and Ubuntu: apt install python3-venv" >&2; exit 1; fi; \
	echo "A first run takes some 35 s on two idle cores; later ones start within seconds."; \
	$(call begin,Making .venv with $$($(PYTHON) --version)); \
	$(PYTHON) -m venv --clear --without-pip .venv && $(HAVE_PIP) && $(end)

.venv/stamp-run: service/requirements.txt .venv/stamp-venv
	@$(call begin,Installing packages of $<); $(call install,--require-hashes -r $<); $(end)

.venv/stamp-test: tests/requirements.txt .venv/stamp-run
	@$(call begin,Installing packages of $<); $(call install,--require-hashes -r $<); $(end)

.venv/stamp-project: pyproject.toml .venv/stamp-run
	@$(call begin,Installing onepass); $(call install,--no-index --no-deps --no-build-isolation --editable .); $(end)

# Kernels have explicit signatures: importing their module compiles them into Numba's cache.
.venv/stamp-kernels: .venv/stamp-project $(shell find core -name "*.py")
	@$(call begin,Compiling kernels); $(PY) -m service.first_run compile && $(end)
