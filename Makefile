# make demo   train on film reviews that come along, and look at the answers
# make test   format, lint, types, import rules and all tests
# Both make the environment in .venv where it is missing.

PYTHON ?= python3
BIN := .venv/bin
BROWSERS := chromium chromium-browser google-chrome google-chrome-stable

.PHONY: env browser demo test test-portable test-slow docs results format clean

env: .venv/ready

.venv/ready: pyproject.toml constraints.txt bundled.txt
	@$(PYTHON) -c 'import sys; sys.exit("fresh needs Python 3.11 or newer: make PYTHON=python3.11 ..." if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv .venv
	@# torch first and by its pin, so that no other build is drawn in by what depends on it
	$(BIN)/pip install --quiet $$(grep -E '^(torch|setuptools)==' constraints.txt)
	$(BIN)/pip install --quiet --constraint constraints.txt --no-build-isolation --editable '.[models,captum,sklearn,data,search,plot,sign,ray,study,postgres,dev]'
	$(BIN)/pip install --quiet --no-deps --requirement bundled.txt
	@touch $@

# For the tests of the page: the browser that FRESH_CHROMIUM names, else one on the path, else Debian's.
browser:
	@if [ -n "$$FRESH_CHROMIUM" ]; then exit 0; fi; \
	for name in $(BROWSERS); do if command -v $$name > /dev/null; then exit 0; fi; done; \
	if ! command -v apt-get > /dev/null; then \
		echo "The tests of the page need a browser. Install Chromium, or name one in FRESH_CHROMIUM." >&2; exit 1; fi; \
	root=; if [ "$$(id -u)" != 0 ]; then root=sudo; fi; \
	$$root apt-get update && $$root apt-get install -y --no-install-recommends chromium

demo: .venv/ready
	$(BIN)/fresh demo --overwrite

test: .venv/ready browser
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	@# one thread a worker: threads that wait for each other on two cores are slower than one
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist loadfile

# The tests as an older processor computes them: sums differ in their last digits. THREADS=2 for two threads.
THREADS ?= 1
SIMD = import numpy; print(*numpy.show_config("dicts")["SIMD Extensions"].get("found", []))
test-portable: .venv/ready browser
	ATEN_CPU_CAPABILITY=default ONEDNN_MAX_CPU_ISA=SSE41 OPENBLAS_CORETYPE=Haswell \
	GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX2,-FMA \
	NPY_DISABLE_CPU_FEATURES="$$($(BIN)/python -c '$(SIMD)')" \
	OMP_NUM_THREADS=$(THREADS) $(BIN)/pytest -n 2 --dist loadfile

test-slow: .venv/ready
	OMP_NUM_THREADS=1 $(BIN)/pytest -m slow -n 2 --dist worksteal --timeout 3000

docs: .venv/ready
	$(BIN)/python docs/reference/make_settings.py

# Tables and figures of docs/results from the reports there; RUNS=FOLDER adds those of a folder of runs first.
results: .venv/ready
	$(BIN)/python docs/results/make_results.py $(RUNS)

format: .venv/ready
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf .venv build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
