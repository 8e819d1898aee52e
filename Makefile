# SPDX-License-Identifier: MIT
# The short way in. CMake does the work (CMakeLists.txt, CMakePresets.json); this says what belongs together.
#
#   make            the programs, in build/bin
#   make demo       three nodes on this machine, a gigabyte there and back; installs what is missing to build
#   make check      everything that tests, sanitizers and the lab included; installs what is missing for that
#   make check-fast the same without the guests of the lab and the sanitizers: before each commit
#   make coverage   which share of lines and branches those run through
#   make lab        the tests in QEMU alone
#   make arm64      unit tests, simulators and fuzz inputs of a build for arm64, emulated (tests/arm64/without: which not); installs what is missing for that
#   make soak       every long test with its full count, hours; SOAK="kill power_cut" runs these only
#   make bench      the figures, against other tools
#   make fuzz       every fuzz target for FUZZ_SECONDS (60)
#   make install    below PREFIX (/usr/local), with DESTDIR; stripped
#   make deb        Debian packages, in build/deb; installs what is missing for that. SUITE=trixie ARCH=arm64 make deb: for that release of
#                   Debian and that processor, in build/deb/trixie-arm64, built in a system that is made for it (root)
#   make uninstall  removes what make install installed from this tree; configuration and stores stay
#   make clean
#
# JOBS=1 make check takes one processor (default: all).
PREFIX ?= /usr/local
JOBS ?= $(shell nproc)
FUZZ_SECONDS ?= 60

ccache := $(if $(shell command -v ccache),-DCMAKE_C_COMPILER_LAUNCHER=ccache)
configure = cmake --preset $(1) $(ccache) -DCMAKE_INSTALL_PREFIX=$(PREFIX) $(2) > build/$(1).log || \
	{ cat build/$(1).log; .ci/deps --missing build; exit 1; }

all:
	@mkdir -p build
	@$(call configure,release)
	@cmake --build build -j $(JOBS) --target programs

deps-build deps-check deps-bench deps-soak deps-deb deps-fuzz deps-arm64: deps-%:
	@.ci/deps $*

# What says so itself where it cannot be had.
may-have-arm64: | deps-check
	@.ci/deps arm64 || true

may-have-arm64-guest: | deps-check
	@.ci/deps arm64-guest || true

demo: deps-build
	@$(MAKE) --no-print-directory all
	@tests/demo

check: deps-check may-have-arm64
	@JOBS=$(JOBS) tests/check

check-fast: deps-check
	@JOBS=$(JOBS) tests/check fast

coverage: deps-check
	@JOBS=$(JOBS) tests/coverage

lab: deps-check
	@JOBS=$(JOBS) tests/check lab

arm64: deps-arm64
	@JOBS=$(JOBS) tests/arm64/run all

soak: deps-check deps-bench deps-soak deps-deb may-have-arm64-guest
	@$(MAKE) --no-print-directory all
	@cmake --build build -j $(JOBS) --target lab-programs bench-programs
	@$(call configure,dev)
	@cmake --build build/check -j $(JOBS) --target fmove fmoved fmove-nvmed sim nvme-sim hostile_peer hostile_client
	@tests/soak/run $(SOAK)

bench: deps-bench
	@$(MAKE) --no-print-directory all
	@cmake --build build -j $(JOBS) --target bench-programs
	@bench/run

fuzz: deps-fuzz
	@mkdir -p build
	@$(call configure,fuzz)
	@cmake --build build/fuzz -j $(JOBS) --target fuzz
	@for f in build/fuzz/bin/fuzz_*; do \
		name=$${f##*/fuzz_}; mkdir -p build/fuzz/corpus/$$name; echo "== $$name"; \
		$$f -max_total_time=$(FUZZ_SECONDS) -timeout=10 -verbosity=0 -print_final_stats=1 -artifact_prefix=build/fuzz/$$name- \
			build/fuzz/corpus/$$name tests/fuzz/corpus/$$name || exit 1; \
	done

install: all
	@cmake --install build --strip
	@[ -n "$(DESTDIR)" ] || echo "Once, on the first node: fmove init --system (-n says what it does)"

deb: deps-deb
	@JOBS=$(JOBS) config/debian/build $(if $(SUITE),--suite $(SUITE)) $(if $(ARCH),--arch $(ARCH))

uninstall:
	@.ci/uninstall build/install_manifest.txt

clean:
	rm -rf build

.PHONY: all deps-build deps-check deps-bench deps-soak deps-deb deps-fuzz deps-arm64 may-have-arm64 may-have-arm64-guest demo check check-fast coverage lab arm64 soak bench fuzz install deb uninstall clean
