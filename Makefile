# `make demo` and `make test` need Python >= 3.11 and Rust, nothing else: `make doctor` names what is missing. Each step leaves a stamp in .venv/stamps and
# is done again only where something it depends on has changed.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMPS := $(VENV)/stamps

RUST_SOURCES := Cargo.toml Cargo.lock $(shell find crates -name '*.rs' -o -name Cargo.toml)
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help doctor demo setup test test-docs test-system check lint lint-rust lint-python types test-rust test-python \
  test-tools kernel test-packages test-uml test-kernel soak fuzz mutants miri audit fmt clean dist packages guests stress \
  lock floors site docs

# Tools that only the targets fuzz, mutants and audit use; each is installed when it is first wanted.
TOOLS := $(CURDIR)/.venv/cargo-tools
TOOL_PATH := PATH="$(TOOLS)/bin:$$PATH"

# Of make fuzz: minutes for each target, and which.
MINUTES ?= 5
FUZZ ?= spec sender queues congestion
# Seconds that make stress takes on the modules.
SECONDS ?= 180
# Of make mutants: the crate, and which part of its mutants.
CRATE ?= knee-core
SHARD ?= $(shell shuf -i 0-9 -n 1)/10
# What only tests use is not changed.
NO_MUTANTS := --exclude '**/testing.rs' --exclude '**/testing/**' --exclude '**/invariants.rs' --exclude '**/invariants/**'

help:
	@echo "make demo    build, run the scenario lola-fig4a and print the path of its report"
	@echo "make test    set up, then lint, check types, and test what needs only Python and Rust"
	@echo "make doctor  name what this machine lacks for that, before anything is built"
	@echo "make test-docs    test what a change of docs, comments and text alone can break: less than a minute"
	@echo "make test-system  test what needs Debian packages, User-Mode Linux, guests, much time and, as root, the running kernel"
	@echo "make check   make test and make test-system: all that CI runs"
	@echo "make soak    run N=1000 random scenarios, and hold them against laws; with GROUND=uml against a kernel, of SEED=1"
	@echo "make setup   create .venv with the package, the release build of the core and the tools"
	@echo "make fuzz    MINUTES=5: fuzz specifications, senders, queues and algorithms, this long each"
	@echo "make mutants CRATE=knee-core: find changes to a crate that its tests miss, a random tenth"
	@echo "make miri    test knee-core under Miri"
	@echo "make audit   check licences, sources, versions and advisories of all dependencies"
	@echo "make site    build the documentation and the page play, the simulator in a browser, into site/build (docs/play.md)"
	@echo "make docs    build the documentation alone: no compiler for WebAssembly is needed"
	@echo "make dist    build the source distribution and wheels into dist, and check what this machine can (lab/release.md)"
	@echo "make packages  build the kernel parts as Debian packages, and BPF as a tar, into dist/packages (docs/deploy.md)"
	@echo "make guests  install the packages in booted guests, use and remove them: some minutes for each kernel"
	@echo "make stress  SECONDS=180: use the kernel modules on four processors at once, under KASAN and lockdep (docs/linux.md)"
	@echo "make floors  test with the lowest versions of dependencies that pyproject.toml accepts"
	@echo "make lock    write requirements.lock, the versions that are tested and their digests, anew"
	@echo "make fmt     format Rust and Python"
	@echo "make clean   remove .venv, target and results"

doctor:
	@$(PYTHON) scripts/machine.py

demo: $(STAMPS)/core
	$(BIN)/knee run lola-fig4a --png

setup: $(STAMPS)/core $(STAMPS)/switch $(STAMPS)/endpoint $(STAMPS)/dev

test: lint-rust test-rust lint-python types test-python

test-system: setup test-tools kernel test-packages test-uml test-kernel

check: test test-system

# Two things go at once, since few keep two processors busy by themselves: packages are installed beside the build of the core,
# Rust's checks share nothing with Python's that cargo builds, and a kernel is built beside programs and tests that need none. Two
# pips would disturb each other, and anything would disturb tests in real time: these run last, alone. No recipe calls make, so
# that make -n only prints.
MAKEFLAGS += --jobs=2
$(STAMPS)/dev: | $(STAMPS)/dependencies
$(BIN)/uv: | $(STAMPS)/dependencies
ifneq ($(filter test test-system check,$(MAKECMDGOALS)),)
MAKEFLAGS += --output-sync=target
test-rust: | lint-rust
$(STAMPS)/endpoint: | $(STAMPS)/switch
$(STAMPS)/dev: | $(STAMPS)/core
types: | lint-python
test-python: | types
test-uml: | test-packages
test-kernel: | test-uml
endif
ifneq ($(filter check,$(MAKECMDGOALS)),)
test-tools: | test-rust test-python
endif
# What builds does so with as many processors as it likes, and not with what this make leaves it.
unexport MAKEFLAGS MFLAGS

lint: lint-rust lint-python

# What crates leave to their users to switch on.
RUST_FEATURES := --features knee-test/noq,knee-test/quinn,knee-test/smoltcp
lint-rust:
	cargo fmt --all --check
	cargo clippy --profile test --workspace $(RUST_FEATURES) --all-targets --quiet -- -D warnings
	cargo clippy --profile test --package knee-sim --no-default-features --quiet -- -D warnings
	@# Each feature alone, as users have it: in the workspace others switch on what one may lack.
	for feature in tokio noq quinn smoltcp; do \
	  cargo clippy --profile test --package knee-test --features $$feature --quiet -- -D warnings || exit 1; done
	for example in outside turmoil; do cargo fmt --manifest-path examples/$$example/Cargo.toml --check || exit 1; done

lint-python: $(STAMPS)/dev
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .

types: $(STAMPS)/core $(STAMPS)/dev
	$(BIN)/mypy --no-error-summary
	$(BIN)/stubtest --concise --mypy-config-file scripts/stubtest.ini knee._core

# Clippy has the profile of the tests, so that macros and build scripts are compiled once for both.
# Random cases are the same each time; SEED=2 tries others. The binding has no tests of its own in Rust: linking it needs an
# interpreter. Python's tests cover it; it is no exception here, so that macros have the features that they have for clippy and
# are compiled once. Clippy has checked the examples, which are not linked here. Endpoints end where standard input is closed.
SEED ?= 1
test-rust:
	PROPTEST_RNG_SEED=$(SEED) cargo test --workspace --quiet --tests $(RUST_FEATURES) < /dev/null
	cargo test --workspace --quiet --doc $(RUST_FEATURES)
	for example in outside turmoil; do \
	  cargo test --manifest-path examples/$$example/Cargo.toml --target-dir target --quiet || exit 1; done

PYTEST := $(BIN)/python -m pytest --quiet
PARALLEL := -n auto --dist worksteal --durations 25
test-python: $(STAMPS)/core $(STAMPS)/dev
	$(PYTEST) $(PARALLEL) -m "not system"

# Only the files with marked tests are read, here and below: reading all of them takes longer than some of these tests.
test-docs: lint-python
	cargo fmt --all --check
	$(PYTEST) $(PARALLEL) -m "docs and not system" $$(grep -l 'mark\.docs' tests/test_*.py)

test-packages: test-tools $(STAMPS)/dev
	cargo test --workspace --quiet --test whole $(RUST_FEATURES) -- --ignored
	cargo test --workspace --quiet --test devices $(RUST_FEATURES)
	$(PYTEST) $(PARALLEL) -m "system and not uml and not running_kernel" $$(grep -liE 'mark\.(packages|guest|long)|needs_chromium' tests/test_*.py)

# The tests that need a kernel are skipped, by name, if it cannot be built; in CI they fail.
kernel: test-tools
	$(BIN)/knee linux build || [ -z "$$CI" ]

test-uml: kernel setup
	$(PYTEST) $(PARALLEL) -m "uml and not running_kernel" $$(grep -l 'mark\.uml' tests/test_*.py)

test-kernel: test-tools setup
	$(PYTEST) -m running_kernel $$(grep -l 'mark\.running_kernel' tests/test_*.py)

# Installs the programs that make test-system uses beside Python and Rust. Tests are skipped, by name, if theirs cannot be had.
test-tools: $(STAMPS)/core
	@packages="$$($(BIN)/python scripts/test_packages.py)"; \
	if [ -z "$$packages" ]; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo "Installing what the tests use: $$packages"; \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$packages; \
	else echo "To test everything here: sudo apt-get install $$packages" >&2; fi

# What fails is written to soak-failures, as scenario files.
N ?= 1000
soak: $(STAMPS)/core
ifdef GROUND
	$(BIN)/knee fidelity --random $(N) --seed $(SEED) --ground $(GROUND) --out soak-failures
else
	$(BIN)/python tests/soak.py $(N)
endif

$(TOOLS)/bin/cargo-%:
	cargo install --locked --quiet --root $(TOOLS) cargo-$*

# libFuzzer's instrumentation is a flag of the stable compiler that cargo-fuzz asks for with unstable ones beside it.
fuzz: $(TOOLS)/bin/cargo-fuzz
	@for target in $(FUZZ); do mkdir -p fuzz/collected/$$target; \
	  (cd fuzz && $(TOOL_PATH) RUSTC_BOOTSTRAP=1 cargo fuzz run -s none $$target collected/$$target corpus/$$target -- \
	    -max_total_time=$$(($(MINUTES) * 60)) -max_len=2048 -timeout=20 -rss_limit_mb=2048) || exit 1; done

mutants: $(TOOLS)/bin/cargo-mutants
	@mkdir -p target
	$(TOOL_PATH) cargo mutants -p $(CRATE) $(NO_MUTANTS) --shard $(SHARD) --sharding round-robin --minimum-test-timeout 60 \
	  --output target/mutants-$(CRATE)

# proptest and the corpora read files, which Miri forbids by default; four cases each, since Miri is slow.
miri:
	MIRIFLAGS=-Zmiri-disable-isolation PROPTEST_CASES=4 cargo +nightly miri test -p knee-core

audit: $(TOOLS)/bin/cargo-deny $(STAMPS)/core
	$(TOOL_PATH) cargo deny check licenses bans sources
	$(TOOL_PATH) cargo deny check advisories || echo "Advisories of Rust crates need the network: not checked" >&2
	$(BIN)/python -m pip check

# It names what is missing. Nothing else compiles for browsers: make test looks at the page only where it is built.
site: $(STAMPS)/core $(STAMPS)/docs
	$(BIN)/python scripts/site.py

docs: $(STAMPS)/core $(STAMPS)/docs
	$(BIN)/python scripts/site.py --only documents

# What is left out or named here: python scripts/dist.py --help.
DIST ?=
dist:
	$(PYTHON) scripts/dist.py $(DIST)

$(BIN)/uv: $(STAMPS)/venv
	@$(PIP) install uv

lock: $(BIN)/uv
	@{ sed '/^[^#]/,$$d' requirements.lock; $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --extra dev \
	  --no-annotate --no-header --no-emit-index-url --generate-hashes --upgrade pyproject.toml; } > requirements.new
	@mv requirements.new requirements.lock

packages: $(STAMPS)/core
	$(BIN)/python scripts/packages.py

guests: packages
	$(BIN)/python -m knee_house matrix --packages dist/packages

stress: $(STAMPS)/core
	$(BIN)/python scripts/stress.py --seconds $(SECONDS)

# The core is the one of make setup.
FLOORS := $(VENV)/floors
FLOOR_TESTS := $(addprefix tests/test_,charts.py dependencies.py figures.py python_floor.py run.py scenario.py search.py sweep.py units.py)
floors: $(STAMPS)/core $(BIN)/uv
	@$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(FLOORS)
	@$(BIN)/uv pip compile --quiet --resolution lowest-direct --extra dev --no-header pyproject.toml > $(FLOORS)/floors.txt
	@$(BIN)/uv pip install --quiet --python $(FLOORS)/bin/python -r $(FLOORS)/floors.txt
	PYTHONPATH=python $(FLOORS)/bin/python -m pytest --quiet $(FLOOR_TESTS)

fmt: $(STAMPS)/dev
	cargo fmt --all
	$(BIN)/ruff format --quiet .
	$(BIN)/ruff check --fix --quiet .

clean:
	rm -rf $(VENV) target results site/build .pytest_cache

$(STAMPS)/venv:
	@$(PYTHON) scripts/machine.py --quiet
	@rm -rf $(VENV)
	@if $(PYTHON) -c 'import ensurepip' 2>/dev/null; then $(PYTHON) -m venv $(VENV); \
	  elif command -v virtualenv >/dev/null; then virtualenv --quiet --python $(PYTHON) $(VENV); \
	  else $(PYTHON) -m venv --without-pip $(VENV) && $(PYTHON) -m pip --quiet --python $(BIN)/python install pip; fi
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/maturin: $(STAMPS)/venv
	@echo "Installing maturin, which builds the core"
	@$(PIP) install 'maturin>=1.9,<2'
	@touch $@

# Beside the build of the core, whose linking keeps one processor busy for more than a minute.
$(STAMPS)/dependencies: $(STAMPS)/maturin pyproject.toml
	@echo "Installing the packages that knee uses"
	@$(call requirements,all) > $@.txt
	@$(PIP) install -r $@.txt
	@touch $@

$(STAMPS)/built: $(STAMPS)/maturin pyproject.toml $(RUST_SOURCES)
	@echo "Building the core: some minutes the first time"
	@. $(BIN)/activate && maturin develop --release --skip-install
	@touch $@

# The package itself is imported from python/: a change to Python needs no build.
$(STAMPS)/core: $(STAMPS)/built $(STAMPS)/dependencies
	@. $(BIN)/activate && PIP_QUIET=1 maturin develop --quiet --release
	@touch $@

# The switch of the ground host. Built here, not by that ground: it runs as root, and root builds nothing. It is built where
# the core was, and with the core's package, so that what both depend on has the same features and is compiled once.
$(STAMPS)/switch: $(STAMPS)/core
	@echo "Building the switch of the ground host"
	@cargo build --quiet --locked --release --target-dir target -p knee-py -p knee-switch --bin knee-switch
	@install target/release/knee-switch $(BIN)/knee-switch
	@touch $@

# The ends of applications' flows on the grounds uml and host. The guest of uml has no libraries, so it is linked
# statically, which concerns this program alone and not what it depends on.
$(STAMPS)/endpoint: $(STAMPS)/core
	@echo "Building the endpoints of applications on the grounds uml and host"
	@cargo rustc --quiet --locked --release --target-dir target -p knee-endpoint --bin knee-endpoint -- \
	  -C target-feature=+crt-static -C strip=symbols
	@install target/release/knee-endpoint $(BIN)/knee-endpoint
	@touch $@

$(STAMPS)/dev: $(STAMPS)/venv pyproject.toml
	@echo "Installing the tools of the checks"
	@$(call requirements,dev) > $@.txt
	@$(PIP) install -r $@.txt
	@touch $@

$(STAMPS)/docs: $(STAMPS)/core pyproject.toml
	@echo "Installing the tools of the documentation"
	@$(call requirements,docs) > $@.txt
	@$(PIP) install -r $@.txt
	@touch $@

# The packages that knee uses, and those of an extra, a line each.
requirements = $(BIN)/python -c 'import tomllib; p = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
  print(*p["dependencies"], *p["optional-dependencies"]["$(1)"], sep="\n")'
