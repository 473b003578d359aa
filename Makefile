# optool: one binary. A C++ compiler is needed for devices alone. GOEXPERIMENT=simd turns on the vector loops
# (go1.26 on amd64); every one has a pure Go twin, which `make SIMD=` and every other Go use.
GO         ?= go
# simd where this Go knows the experiment: an unknown one would be an error.
ifeq ($(origin SIMD),undefined)
SIMD       := $(shell GOEXPERIMENT=simd $(GO) version >/dev/null 2>&1 && echo simd)
endif
# TAGS=openblas: use an OpenBLAS found at run time; the binary then needs a C library.
# TAGS=lite: leave out --xlsx, --sqlite, view and s3://, a third of the binary.
TAGS       ?=
# Without debug information for debuggers, a fifth of the binary; stacks of errors need none. LDFLAGS= keeps it.
LDFLAGS    ?= -w
# The version says which commit was built (optool version), wherever git can tell; whatever GOFLAGS says.
BUILDVCS   := $(if $(shell git rev-parse HEAD 2>/dev/null),true,false)
STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.8.2

export GOEXPERIMENT = $(SIMD)
# Builds and tests share what is compiled, wherever the source lies.
export GOFLAGS := $(strip $(GOFLAGS) -trimpath)

.PHONY: all build native demo man test test-hook race portable lint bench generate clean

all: build

# $(call compile,TAGS,FILE) builds FILE. The first build takes minutes: a line a minute says that it goes on.
define compile
@echo "building $2 (a first build takes some minutes)"
@( n=1; while sleep 60 </dev/null >/dev/null 2>&1; do echo "still building after $$n min"; n=$$((n+1)); done ) & ticker=$$!; \
$(GO) build -buildvcs=$(BUILDVCS) -tags "$1" -ldflags "$(LDFLAGS)" -o $2 ./cmd/optool; built=$$?; \
kill $$ticker; exit $$built
endef

build: native
	$(call compile,$(TAGS),bin/optool)

# The worker and the built-in device of the device bridge, which the binary embeds.
native:
	@if command -v $(firstword $(CXX)) >/dev/null; \
	then $(MAKE) -C devicebridge/native --no-print-directory -j2; \
	else echo "make: no C++ compiler ($(CXX)): optool is built without devices; install g++ or set CXX" >&2; fi

# The main job on recorded calls that ship with the source. The result of one gelu was replaced on purpose by that
# of the tanh approximation. Exit code 1 says that it was found. The demo needs no devices, workbooks and databases:
# without them it is built in half of the processor time.
DEMO := $${TMPDIR:-/tmp}/optool-demo
demo:
	$(call compile,$(TAGS) lite,bin/optool-lite)
	@echo "== 28 recorded calls; one gelu was computed with the tanh approximation, on purpose =="
	bin/optool-lite replay --out $(DEMO) fixtures/demo; test $$? -eq 1
	@echo; echo "Next: bin/optool-lite explain fixtures/demo shows the wrong value in full."; \
	echo "      docs/tutorial.md goes from a model with a bug to its line."; \
	echo "      make builds bin/optool, with devices and every format of reports."

# TESTFLAGS=-shuffle=on runs each package's tests in another order.
TESTFLAGS ?=
test: native wrong-devices
	$(GO) test $(TESTFLAGS) ./...

# The libraries with planted faults that tests of devices need.
.PHONY: wrong-devices
wrong-devices:
	@if command -v $(firstword $(CXX)) >/dev/null; then $(MAKE) -C devicebridge/native --no-print-directory -j2 broken; fi

# The recorder's own tests, with a Python that has torch 1.13 or newer.
PYTHON ?= python3
test-hook:
	$(PYTHON) hook/optool_capture_test.py

# A run that is killed 200 times. A job in parts on a Slurm of this machine (root, Debian), and the manifest of Kubernetes against its types.
.PHONY: slurm-test kubernetes-test kill-test
kill-test: build
	.ci/kill-test

slurm-test: build
	.ci/slurm-test

kubernetes-test:
	cd internal/run/cluster/testdata/strict && $(GO) test ./...

# The race detector, on the packages that start goroutines or guard what they share. With -short the tests leave out
# what only repeats computations.
concurrent = $(sort $(dir $(shell grep -rlE --include=*.go --exclude=*_test.go '^\s+go [a-z]|\bsync\.|\batomic\.' .)))
race:
	CGO_ENABLED=1 $(GO) test -race -short -timeout 30m $(concurrent)

# Without vectors and without cgo: everything compiles, and what computes gives the same.
portable: export GOEXPERIMENT =
portable: export CGO_ENABLED = 0
portable:
	$(GO) build ./...
	$(GO) vet ./internal/num/... ./tensor ./compare/...
	$(GO) test ./internal/num/... ./tensor ./compare/... ./ops/... ./replay

lint:
	@out=$$(gofmt -l .); test -z "$$out" || { echo "gofmt: $$out"; exit 1; }
	$(GO) vet ./...
	$(GO) run $(STATICCHECK) ./...

bench:
	$(GO) test -run '^$$' -bench . -benchtime 1s $(benchmarked)

# Benchmarks against the recorded ones. A baseline of another machine says nothing: record one of the commit before
# the change (git worktree), then compare with the change in place.
BENCH       ?= .
BENCH_FLAGS ?= -count 6 -benchtime 0.2s
benchmarked  = $(sort $(dir $(shell grep -rl --include=*_test.go '^func Benchmark' .)))
BENCHSTAT    = golang.org/x/perf/cmd/benchstat@v0.0.0-20260908200009-22c9c6c9d4da
.PHONY: bench-baseline bench-compare
bench-baseline:
	$(GO) test -run '^$$' -bench '$(BENCH)' $(BENCH_FLAGS) $(benchmarked) >bench/new.txt
	grep -E '^(goos|goarch|pkg|cpu|Benchmark)' bench/new.txt >bench/baseline.txt
	rm bench/new.txt

bench-compare:
	$(GO) test -run '^$$' -bench '$(BENCH)' $(BENCH_FLAGS) $(benchmarked) >bench/new.txt
	$(GO) run $(BENCHSTAT) bench/baseline.txt bench/new.txt

# A man page of each command, in bin/man.
man: build
	bin/optool man bin/man

# The C++ side's header and list of functions.
generate:
	$(GO) generate ./devicebridge/...

# Archives for Linux and macOS with completions, man pages, checksums and a bill of materials: the same bytes
# each time. VERSION=v1.2.3; without it that of the commit. PLATFORM=linux/amd64 makes that archive alone. DIST is
# where they go.
DIST ?= bin/release
.PHONY: release
release: native
	$(GO) run ./internal/release -version "$(VERSION)" -out $(DIST) -only "$(PLATFORM)"

clean:
	rm -rf bin
	$(MAKE) -C devicebridge/native --no-print-directory clean

# optool against torch and op_tools' formulas, in one run; needs python3 with torch.
.PHONY: bench-peers bench-limits
bench-peers:
	$(PYTHON) bench/peers.py

# What this machine could do at best: copies of memory, multiplications in vector registers.
bench-limits:
	$(GO) test -run '^$$' -bench Limits ./bench
