# The front door. Everything is done by meson and the scripts in scripts/ and tests/; each target
# installs the Debian packages it needs (scripts/setup says which and why).

PREFIX ?= /usr/local
DESTDIR ?=
FUZZ_SECONDS ?= 20
SOAK_SECONDS ?= 600
# make test T='unit recipe': only the unit tests with "recipe" in their name.
T ?=

# Warnings are errors where nobody is there to read them.
WERROR := $(if $(CI),-Dwerror=true)
# On a terminal ninja shows its progress in one line; elsewhere only what went wrong.
NINJA := ninja $(if $(MAKE_TERMOUT),,--quiet)
# gcc sees truncated formats where the sanitizers have changed the code.
ASAN := -Db_sanitize=address,undefined -Db_lundef=false -Dtests=enabled \
	-Dc_args=-Wno-format-truncation

.PHONY: all test demo lint asan fuzz bench soak install clean help
.DEFAULT_GOAL := all

all:
	@scripts/setup build
	@scripts/configure build $(WERROR)
	@$(NINJA) -C build

test:
	@scripts/setup build test
	@scripts/configure build -Dtests=enabled $(WERROR)
	@scripts/configure build-asan $(ASAN)
	@$(NINJA) -C build
	@$(NINJA) -C build-asan
	@tests/run $(T)

demo: all
	@scripts/demo

lint:
	@scripts/setup build test lint
	@scripts/configure build -Dtests=enabled $(WERROR)
	@$(NINJA) -C build
	@scripts/lint build $(T)

asan:
	@scripts/setup build test
	@scripts/configure build-asan $(ASAN)
	@$(NINJA) -C build-asan
	@tests/run asan asan-e2e $(T)

fuzz:
	@scripts/setup build fuzz
	@CC=clang scripts/configure build-fuzz -Dfuzzers=true -Db_lundef=false -Dtests=disabled
	@$(NINJA) -C build-fuzz
	@FUZZ_SECONDS=$(FUZZ_SECONDS) scripts/fuzz build-fuzz $(T)

bench:
	@scripts/setup build bench
	@scripts/configure build $(WERROR)
	@$(NINJA) -C build
	@bench/run $(T)

soak:
	@scripts/setup build test
	@scripts/configure build -Dtests=enabled $(WERROR)
	@$(NINJA) -C build
	@CHAOS_SECONDS=$${CHAOS_SECONDS:-120} MOUNT_SOAK_SECONDS=$${MOUNT_SOAK_SECONDS:-240} tests/run --for $(SOAK_SECONDS) $(or $(T),unit e2e)

install: all
	@scripts/configure build -Dprefix=$(abspath $(PREFIX))
	@DESTDIR=$(DESTDIR) meson install -C build --quiet
	@echo "installed in $(DESTDIR)$(abspath $(PREFIX))"

clean:
	@rm -rf build build-asan build-fuzz

help:
	@echo 'make          build build/drover'
	@echo 'make demo     build and run the main example'
	@echo 'make test     build and run every test     (T="unit NAME" or "e2e NAME" or "asan NAME")'
	@echo 'make lint     formatting, static analysis, include and purity rules   (T=quick, T=STEP)'
	@echo 'make asan     all tests under the address and undefined-behaviour sanitizers'
	@echo 'make fuzz     each fuzzer for FUZZ_SECONDS=20                           (T=NAME)'
	@echo 'make bench    side-by-side benchmarks, as ratios                        (T=NAME)'
	@echo 'make soak     the tests over and over for SOAK_SECONDS=600'
	@echo 'make install  into PREFIX=/usr/local, under DESTDIR if set'
	@echo 'make clean    remove what was built'
	@echo 'Each installs the Debian packages it needs first.'
