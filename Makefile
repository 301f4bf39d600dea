# make demo and make test need a Rust toolchain, a C compiler and git, nothing else.

PREFIX ?= $(HOME)/.local
CARGO ?= cargo

.PHONY: build demo test check install live bench

build:
	$(CARGO) build --release --locked

# The main job on this folder, with recorded replies: no key, no network.
demo: build
	@demo/run

# All tests. cargo-nextest runs them faster where it is installed; without it cargo's own runner does, the unit tests
# one by one: those of processes look for orphans, and would find each other's.
test:
	@if $(CARGO) nextest --version >/dev/null 2>&1; then \
		$(CARGO) nextest run --locked; \
	else \
		$(CARGO) test --locked --quiet --lib -- --test-threads=1 && $(CARGO) test --locked --quiet --test it; \
	fi

# What .ci/run asks besides the tests.
check:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --no-deps --document-private-items

# The executables to $(PREFIX)/bin, their pages to $(PREFIX)/share/man.
install: build
	install -d "$(PREFIX)/bin"
	install -m 755 target/release/nagent target/release/nagent-file-patch target/release/nagent-llm-text "$(PREFIX)/bin"
	install -d "$(PREFIX)/share/man/man1"
	install -m 644 man/*.1 "$(PREFIX)/share/man/man1"
	@case ":$$PATH:" in *":$(PREFIX)/bin:"*) ;; *) echo "add $(PREFIX)/bin to your PATH";; esac

# One real exchange with every provider whose key is set.
live: build
	@demo/live

# The figures of speed, beside curl and a bare loop, as a table.
bench: build
	$(CARGO) run --release --locked --manifest-path bench/Cargo.toml -- --nagent target/release/nagent
