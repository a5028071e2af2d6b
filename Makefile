# Everything that is done to the project, by name. `make help` lists it.
#
# The work is in scripts/, so that each step can be run and read alone.

.DEFAULT_GOAL := help
.PHONY: help demo quick test lint static dist fuzz soak bench man clean

help: ## this list
	@awk -F':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## build (some minutes at first), then in seconds: an hour's test and a certification on simulated drives, a captured log sized
	@scripts/demo

quick: ## before a commit: lint, and the tests of the changed crates
	@scripts/quick

test: ## install what tests need (as root, with apt), run everything, list what was skipped and why
	@scripts/test $(BESIDE)

lint: ## formatting, clippy with warnings as errors, known vulnerabilities of dependencies
	@scripts/lint

static: ## the release binary, fully static, for servers without a toolchain; checks that it is
	@scripts/static

dist: ## .deb, .rpm, SBOM and release notes from the static binary, in target/dist (docs/install.md)
	@scripts/dist

fuzz: ## libFuzzer on every parser of foreign bytes, a minute each
	@scripts/fuzz 60

soak: ## the long tests: fuzzing, 24 simulated hours, known write amplification, ratings beside hour-long runs, drawn runs judged twice, the record engine under load, kill -9, power cuts and splits of two nodes at random moments
	@scripts/soak

bench: ## speed and cost, beside fio on the same device, and checks beside the makers' tools (root; half an hour)
	@scripts/setup bench
	@scripts/bench

man: ## a man page of each command, in target/man
	cargo build --release --locked -p flashproof
	target/release/flashproof help --man target/man

clean: ## remove what was built
	cargo clean
