# SPDX-License-Identifier: GPL-2.0-or-later
# Entry point; `make` alone lists the targets.

EXPERIMENT ?= twins
QUEUE_RULES ?= loopback-9999
SECONDS ?= 60
MINUTES ?= 30
PREFIX ?= /usr/local
# Not empty if the experiment's subjects are programs of kernel/.
EXCHANGES = $(filter-out %/cage.toml,$(shell grep -ls '^kind = "exchange"' harness/experiments/$(EXPERIMENT).toml))
export CARGO_TARGET_DIR ?= $(CURDIR)/build/cargo
export IPTABLES ?= iptables

RUST := deps/with-rust
# Empty for root, and without sudo: commands that need root then report it.
SUDO := $(if $(filter 0,$(shell id -u)),,$(if $(shell command -v sudo),sudo))
SCRIPTS = $(shell grep -rlE --exclude-dir=build --exclude-dir=.git '^\#!/bin/(ba)?sh' .)

# C outside the twin: modules, exchanges, tests of the modules, and a peer.
KERNEL_C = $(wildcard kernel/*/*.[ch] kernel/userland/c/*.[ch] kernel/userland/c/*.cpp tests/live/kernel/guest/*.[ch] harness/peers/*/*.[ch])

# $(call run,EXPERIMENT,FOLDER): runs an experiment. The owner of the repository owns the result, so that
# `make plot` needs no root.
run = status=0; $(SUDO) build/harness run $(1) --out $(2) || status=$$?; \
	[ ! -d $(2) ] || $(SUDO) chown -R --reference=Makefile $(2); exit $$status

.PHONY: help deps build services tools lab harness man user install deb check test test-long test-vm check-root certify soak fuzz fleet-demo fleet-test bench results bench-scanner ethr peers ends demo micro instructions packet-cost micro-programs kernel-lab plot rules unrules bindings lint fmt clean
.PHONY: spec lint-rust lint-format lint-cppcheck lint-tidy lint-bindings lint-spec lint-docs lint-shell

help: ## this list
	@echo "Twinwall: a userspace firewall on NFQUEUE, written twice"
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20
	@echo "Shortest way in: make demo"

deps: ## install the missing packages of deps/debian.txt (with sudo unless you are root)
	@deps/install
	@deps/install vm || echo "warning: without these packages the tests of vm/ are skipped" >&2
	@deps/install browser || echo "warning: without a browser its tests are skipped" >&2
	@deps/install container || echo "warning: without podman its test is skipped" >&2

# $(call in-rust,PROGRAM...): builds programs with the libraries' features for the whole workspace, so that no library is
# built twice. An equal program is left in place (-C): tests that run meanwhile start it by its path.
in-rust = $(RUST) cargo build --release --locked --workspace $(addprefix --bin=,$(1)) && \
	install -C -D -t build $(addprefix $(CARGO_TARGET_DIR)/release/,$(1))

build: ## build/rust-firewall, build/c-firewall, build/fwctl
	@$(call in-rust,rust-firewall fwctl)
	@$(MAKE) --silent --no-print-directory --jobs=$(shell nproc) -C c-firewall BUILD=$(CURDIR)/build/c
	@install -C -D -t build build/c/c-firewall
	@echo "built: build/rust-firewall build/c-firewall build/fwctl"

services: ## build/twinwall-exporter, and the two programs of a fleet's hosts
	@$(call in-rust,twinwall-exporter twinwall-agent twinwall-fleet-local)
	@echo "built: build/twinwall-exporter build/twinwall-agent build/twinwall-fleet-local"

tools: ## build/scanner and build/capture, independent of a firewall
	@$(call in-rust,scanner capture)
	@echo "built: build/scanner build/capture"

lab: ## build/capture-lab: measurements of capture's rings, for the harness and the kernel lab
	@$(call in-rust,capture-lab)
	@echo "built: build/capture-lab"

harness: ## build/harness: measurements and figures
	@$(call in-rust,harness)
	@echo "built: build/harness"

man: build services tools ## build/man: the man pages, from the programs' help texts
	@deps/install package
	@packaging/man/make build

user: ## the system user twinwall, for firewalls that root starts (needs root; the packages create it, too)
	@packaging/user

install: man ## programs, man pages, policies, systemd units, the user: PREFIX=/usr/local DESTDIR= (no user with DESTDIR)
	@DESTDIR="$(DESTDIR)" PREFIX="$(PREFIX)" packaging/install build
	@[ -n "$(DESTDIR)" ] || packaging/user

deb: man ## build/deb: the Debian packages twinwall-rust, twinwall-c, twinwall-fleet, twinwall-scanner, twinwall-capture, twinwall-common
	@packaging/deb build

check: ## tests of two minutes after a change in either twin: formats, spec, docs, unit tests, vectors, the twins' comparison; no root, no network
	@$(MAKE) --silent --no-print-directory --jobs=$(shell nproc) -C c-firewall plain-program test-programs BUILD=$(CURDIR)/build/c
	@tests/run --check

test: ## deps, build, and every test of tests/parts except the long ones: half an hour
	@deps/check-root >/dev/null
	@$(MAKE) --no-print-directory deps
	@$(MAKE) --no-print-directory build services tools harness
	@tests/run

test-long: ## the longer tests: whole fuzzing, soak, the kernel lab, clang-tidy, valgrind, instructions: an hour
	@deps/check-root >/dev/null
	@$(MAKE) --no-print-directory deps
	@$(MAKE) --no-print-directory build services tools lab harness
	@tests/run --long

test-vm: build services tools harness ## the tests of vm/: a Debian under systemd in QEMU with our packages, and tests on its kernel
	@deps/check-root >/dev/null
	@$(MAKE) --no-print-directory deps
	@tests/run vm

check-root: ## which parts need root, why, and whether it is available here
	@deps/check-root

certify: ## the judge: boundary packets through both twins and nf_tables, SECONDS=60 of random policies (needs root)
	@deps/check-root >/dev/null
	@$(MAKE) --no-print-directory build
	@tests/build --bin certify >/dev/null
	@$(SUDO) $(CARGO_TARGET_DIR)/checked/certify --seconds $(SECONDS)

soak: ## both twins under mixed traffic for MINUTES=30, with reloads, stalls, upgrades, kills (needs root)
	@deps/check-root >/dev/null
	@$(MAKE) --no-print-directory build services
	@tests/build --bin soak >/dev/null
	@$(SUDO) $(CARGO_TARGET_DIR)/checked/soak --minutes $(MINUTES) --out build/soak.json

fuzz: build ## all fuzzers of both twins, the scanner and the kernel lab, SECONDS=60 each, and a comparison of the twins: a million decisions
	@$(MAKE) --no-print-directory -C c-firewall fuzz BUILD=$(CURDIR)/build/c SECONDS=$(SECONDS)
	@tests/fuzz rust-firewall $(SECONDS)
	@rust-firewall/fuzz/equal $(CURDIR)/build/c
	@tests/fuzz scanner $(SECONDS)
	@kernel/fuzz/run $(SECONDS) || [ $$? -eq 77 ]
	@tests/build --bin differential >/dev/null
	@$(CARGO_TARGET_DIR)/checked/differential --seconds $(SECONDS) --decisions 1000000

fleet-demo: ## etcd and 20 hosts in namespaces: a push, a canary that fails and reverts, a rollback: a table, half a minute (needs root)
	@deps/check-root >/dev/null
	@$(MAKE) --no-print-directory build services
	@tests/build --bin fleet >/dev/null
	@$(SUDO) $(CARGO_TARGET_DIR)/checked/fleet demo

fleet-test: ## the whole fleet: its faults, 300 hosts with firewalls, 2,000 agents for load: result/fleet, ten minutes (needs root)
	@deps/check-root >/dev/null
	@$(MAKE) --no-print-directory build services tools
	@tests/run fleet
	@tests/build --bin fleet >/dev/null
	@$(SUDO) $(CARGO_TARGET_DIR)/checked/fleet test --out result/fleet
	@$(SUDO) chown -R --reference=Makefile result/fleet

bench: ## run an experiment: EXPERIMENT=twins (the list: build/harness list)
	@deps/check-root >/dev/null
	@deps/install build rust run $(if $(EXCHANGES),kernel vm) $(filter cage,$(EXPERIMENT))
	@$(MAKE) --no-print-directory build tools lab harness
	@$(if $(EXCHANGES),$(MAKE) --no-print-directory -C kernel BUILD=$(CURDIR)/build/kernel)
	@$(call run,$(EXPERIMENT),result/$(basename $(notdir $(EXPERIMENT))))

results: ## every shipped experiment by its file, for the committed results: some hours; prints the duration first
	@deps/check-root >/dev/null
	@$(MAKE) --no-print-directory deps
	@$(MAKE) --no-print-directory build tools lab harness ethr peers
	@harness/all $(MAKE) --no-print-directory

ethr: ## build/ethr, the tool of the published experiment, with Go: ETHR_SOURCE=FOLDER builds from a folder
	@ETHR_SOURCE="$(ETHR_SOURCE)" harness/ethr build

peers: ## build/peers: the alternatives of EXPERIMENT=peers whose toolchains are installed
	@harness/peers/make build

ends: ## build/ends: TLS and QUIC ends in other languages, for the tests, whose toolchains are installed
	@tests/ends/make build

demo: ## deps, build, and the short experiment: table and figures in build/demo
	@deps/check-root >/dev/null
	@deps/install build rust run
	@$(MAKE) --no-print-directory build harness
	@$(call run,demo,build/demo)

bench-scanner: build tools ## the scanner on io_uring and on epoll, and the scanners on PATH: result/scanner (needs root)
	@deps/check-root >/dev/null
	@$(RUST) cargo bench --quiet --locked --no-run --workspace --bench scanner
	@program=$$($(RUST) cargo bench --locked --no-run --workspace --bench scanner 2>&1 \
		| sed -n 's/.*Executable.*(\(.*\))$$/\1/p'); $(SUDO) "$$program" --scanner build/scanner --out result/scanner
	@[ ! -d result ] || $(SUDO) chown -R --reference=Makefile result

micro: harness micro-programs ## nanoseconds per decision of both twins, without kernel and queue, in slices: ROUNDS=120
	@build/harness micro $(if $(ROUNDS),--rounds $(ROUNDS))

instructions: harness micro-programs ## instructions per decision, compared with harness/instructions.toml; WRITE=yes writes that file
	@$(RUST) build/harness instructions $(if $(WRITE),--write)

packet-cost: ## instructions per packet through kernel, queue and twin, and of the stage, counted by a virtual machine: a minute
	@deps/install build rust run test vm
	@$(MAKE) --no-print-directory build
	@harness/packet/measure build
	@harness/packet/stage build

micro-programs:
	@$(MAKE) --silent --no-print-directory -C c-firewall micro BUILD=$(CURDIR)/build/c
	@$(RUST) cargo bench --quiet --locked --no-run --workspace --bench micro
	@program=$$($(RUST) cargo bench --locked --no-run --workspace --bench micro 2>&1 \
		| sed -n 's/.*Executable.*(\(.*\))$$/\1/p'); install -D "$$program" build/rust-micro

kernel-lab: ## every exchange of kernel/ once, in a virtual machine that counts instructions: a table; DEBUG=1: the lab's tests, fuzzers and exchanges under KASAN, lockdep, kmemleak and fault injection
	@deps/install build rust kernel vm $(if $(DEBUG),vm-debug)
	@$(MAKE) --no-print-directory -C kernel BUILD=$(CURDIR)/build/kernel
	@$(if $(DEBUG),kernel/debug,kernel/lab --table kernel/once.list)

plot: harness ## draw the figures of all results again, from the saved data
	@build/harness plot

rules: ## load QUEUE_RULES=loopback-9999 (rules/queue) on this machine; IPTABLES=iptables-legacy for the other backend
	@$(SUDO) env IPTABLES=$(IPTABLES) rules/load $(QUEUE_RULES)

unrules: ## remove the rules: the tables are then as before
	@$(SUDO) env IPTABLES=$(IPTABLES) rules/unload

spec: ## generate the tables of both twins from spec/, and those of docs/ARCHITECTURE.md from the sources
	@spec/generate
	@docs/modules

bindings: ## generate sys-bindings/src/bindings.rs from the C headers
	@$(RUST) sys-bindings/regenerate

lint: lint-rust lint-format lint-cppcheck lint-tidy lint-bindings lint-spec lint-docs lint-shell ## clippy, rustfmt, clang-tidy, cppcheck, bindings, spec, docs, shellcheck

# These lints are on in Rust 1.85, the oldest supported version, and off in later ones.
lint-rust:
	@$(RUST) cargo clippy --quiet --workspace --all-targets --profile checked --locked -- --deny warnings \
		--allow clippy::precedence --allow clippy::format_collect --allow clippy::comparison_chain --allow clippy::needless_lifetimes

lint-format:
	@$(RUST) cargo fmt --all --check -- --color never
	@$(RUST) cargo fmt --manifest-path kernel/userland/rust/Cargo.toml --check -- --color never
	@$(RUST) cargo fmt --manifest-path tests/ends/rustls-aws-lc/Cargo.toml --check -- --color never
	@clang-format --dry-run -Werror $(KERNEL_C)
	@$(MAKE) --silent --no-print-directory -C c-firewall lint-format

lint-cppcheck lint-tidy:
	@$(MAKE) --no-print-directory -C c-firewall $@ BUILD=$(CURDIR)/build/c

lint-bindings:
	@$(RUST) sys-bindings/regenerate --check

lint-spec:
	@spec/generate --check

lint-docs:
	@docs/modules --check
	@docs/names
	@docs/words --test
	@docs/words
	@docs/outputs

lint-shell:
	@shellcheck --external-sources --source-path=SCRIPTDIR $(SCRIPTS)

fmt: ## format all Rust and C
	@$(RUST) cargo fmt --all
	@$(RUST) cargo fmt --manifest-path kernel/userland/rust/Cargo.toml
	@$(RUST) cargo fmt --manifest-path tests/ends/rustls-aws-lc/Cargo.toml
	@clang-format -i $$(git ls-files 'c-firewall/*.[ch]') $(KERNEL_C)

clean: ## remove build/
	@rm -rf build
