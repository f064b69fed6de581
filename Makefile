# These are the commands for developers. `make run` builds haul and serves a directory; `make test`
# installs what the tests need and runs them; `make check` runs the rest of CI.

GO       ?= go
DIR      ?= bin/sample
VERSION  ?= $(shell scripts/version)
FUZZTIME ?= 200000x
TARGETS  := linux/amd64 linux/arm64 linux/arm darwin/arm64 windows/amd64

# ARM version 6 is that of the first Raspberry Pi and the Zero, which Raspberry Pi OS calls armhf,
# as Debian calls version 7. The instructions of version 7 would exclude them, and bring little
# speed: hashes and ciphers do not use them.
export GOARM := 6

# Released binaries run on each processor of their kind, and are the same in any build environment.
binaries: export GOAMD64 := v1
binaries: export GOARM64 := v8.0
binaries: export GOFLAGS :=
binaries: export GOEXPERIMENT :=

# The Go toolchain builds golangci-lint, which only needs the module proxy: two minutes on two cores
# the first time, nothing after that. It is a tool and not a dependency of haul, so it is not in
# go.mod.
LINT := 2.15.0

# Haul is one static binary, and is tested as such; only the race detector needs a C compiler.
export CGO_ENABLED := 0

# The version is set explicitly, so the build does not need git.
BUILD := $(GO) build -trimpath -buildvcs=false -ldflags '-s -w -X main.version=$(VERSION)'

# All packages except the interop tests, which need peers and have their own target.
UNIT = $$($(GO) list ./... | grep -v /interop$$)

.PHONY: build man binaries packages run quick test check vet lint unit portable portable-timed portable-rest race race-timed race-together cover fuzz mutants interop soak cross bench bench-quick bench-guard bench-peers bench-test sizes microbench peers clean FORCE

build: ## bin/haul, one static binary
	$(BUILD) -o bin/haul ./cmd/haul

# Files get the date of the commit.
man packages: export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null)

man: build ## bin/man, the manual pages
	bin/haul man bin/man

binaries: ## binaries for every system that haul supports, below bin
	@set -e; for t in $(TARGETS); do \
		echo "$$t"; GOOS=$${t%/*} GOARCH=$${t#*/} $(BUILD) -o "bin/$${t%/*}-$${t#*/}/" ./cmd/haul; \
	done

packages: man binaries ## archives, Debian packages and their checksums, in bin/packages
	GO='$(GO)' TARGETS='$(TARGETS)' VERSION='$(VERSION)' scripts/packages

run: build ## serve DIR; the default is a small sample tree
	@[ '$(DIR)' != bin/sample ] || scripts/sample-tree bin/sample
	bin/haul serve '$(DIR)'

test: ## all tests, including those against other programs, to run before each merge; installs the programs that they need
	@scripts/test

check: ## the further checks of CI: the race detector, the portable paths, fuzzing, lint, cross builds, the benchmark's own tests
	@scripts/test check

# Tests wait more than they compute, so twice as many packages as cores run at once.
TWICE = -p $$((2 * $$(getconf _NPROCESSORS_ONLN)))

quick: vet ## the checks to run before each commit; they take about a minute
	$(GO) test -short -vet=off $(TWICE) $(UNIT)

vet: ## the part of lint that takes only seconds
	$(GO) vet ./...
	$(GO) vet -tags haul_portable ./...

lint: bin/golangci-lint-$(LINT)
	$< run ./...
	$< run --build-tags haul_portable $$(grep -rl --include='*.go' --exclude-dir=bin --exclude-dir=bench haul_portable . | xargs -n1 dirname | sort -u)
	cd bench && ../$< run --config ../.golangci.yml ./...
	cd cmd/haul/internal/boot/pxe/difftest && ../../../../../../$< run --config ../../../../../../.golangci.yml ./...

bin/golangci-lint-$(LINT):
	@mkdir -p bin; echo 'building golangci-lint $(LINT)'
	@GOBIN='$(CURDIR)/bin' $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v$(LINT) 2>bin/lint.log || \
		{ cat bin/lint.log; false; }
	@mv bin/golangci-lint $@

# The timeout is for a test that hangs. The slowest packages, which run with low priority, take more
# than ten minutes on a busy machine.
PATIENCE = -timeout 30m

# Lint vets all variants. go test would vet them again, with all their imports.
VETTED = -vet=off

unit: ## unit tests, and checks of formatting, comments and imports (arch_test.go)
	$(GO) test $(PATIENCE) $(VETTED) $(TWICE) $(UNIT)
	cd cmd/haul/internal/boot/pxe/difftest && $(GO) test $(PATIENCE) $(VETTED) ./...

portable: portable-timed portable-rest ## test the code paths of other systems on this one, where they differ

# SFTP and HTTP do not use UDP: of the command's tests and scripts, only those with TFTP run, and
# those with all protocols.
portable-timed: NO_UDP = cat|chmod|config|copy|cp|df|get-(http|sftp)|glob|http|ln|ls|mkdir|mv|put|rm|serve-(drop|http|log-sftp|refused)|sftp-server|stat|sum|sync|tree|usage|user|version
portable-timed:
	packages=$$(GO='$(GO)' scripts/portable-packages | grep -vE '$(TOGETHER)') && \
		$(GO) test $(PATIENCE) $(VETTED) -tags haul_portable -skip '^Test((Serve|Parallel)?(SFTP|HTTP($$|[^A]))|(Serve|Reload)(Hook|Audit|Status|UserCache|OwnCert)|(Sync|Sum|Cp|Ls|Rm|Guide)($$|[A-Z]))|^TestScript$$/^($(NO_UDP))' $$packages

portable-rest:
	packages=$$(GO='$(GO)' scripts/portable-packages | grep -E '$(TOGETHER)') && $(GO) test $(PATIENCE) $(VETTED) -tags haul_portable $$packages

# The tests of these packages can run next to others: their time is virtual, or they have no timers.
TOGETHER = /(sftp|sftp/sftpclient|tcp|web|web/webclient|store/(treecopy|localdir|cache|s3)|store|users|client/openssh|internal/(penalty|rate|sshconn)|$(UNTIMED))$$
UNTIMED = sftp/internal/(mux|storewire|uploadrecord)|store/(filter|glob|internal/rules)|internal/(localfs|tempname)|cli/(console|events|failure|top)|client/runs|boot/dhcpadvice|server/(config|config/convert|meter|site|userroots)|system/smallfile

# A process with the detector sleeps for a second at its end, for threads that have found a race.
# The tests start many processes.
DETECTOR = CGO_ENABLED=1 GORACE=atexit_sleep_ms=100

race: race-timed race-together ## all tests of packages with concurrency under the race detector

race-timed: ## the race detector for tests with timers; no other tests run at the same time, because servers would be slower than their clients' timers
	packages=$$(scripts/race-packages | grep -vE '$(TOGETHER)') && $(DETECTOR) $(GO) test $(PATIENCE) $(VETTED) -race $$packages

race-together:
	packages=$$(scripts/race-packages | grep -E '$(TOGETHER)') && $(DETECTOR) $(GO) test $(PATIENCE) $(VETTED) -race $$packages

cover: ## the share of each package, and of all, that its own tests cover; line by line in bin/cover.html
	@mkdir -p bin
	$(GO) test $(PATIENCE) -coverprofile=bin/cover.out $(UNIT)
	@$(GO) tool cover -html=bin/cover.out -o bin/cover.html
	@$(GO) tool cover -func=bin/cover.out | awk '/^total:/ { print "total: " $$NF " of statements; lines: bin/cover.html" }'

fuzz: ## every fuzz target, FUZZTIME runs of each
	GO='$(GO)' scripts/fuzz $(FUZZTIME)

mutants: ## put the bugs of scripts/mutants.txt into the code, one at a time, and check that the tests detect them; FILES=REGEXP selects files
	nice $(GO) run scripts/mutants.go -list scripts/mutants.txt '$(FILES)' # without the option, go run would compile FILES=x.go

# The second run covers everything with UDP. SFTP, HTTP and S3 do not use it: in TestSources the
# portable path serves their files over TFTP. The fleet uses it for 40 s, in ways that other tests
# of that run cover: TestReplicasRun (replicas of a bucket with caches), TestThousand and
# TestNetworkRestart. TestSoak covers TestSoakAll in the same way. With the other UDP path the
# services, and haul's packets to boot clients, are the same, and TestFirmware covers the firmware's
# TFTP, so no other machine is started. Packages use the fast path.
UDP_ALIKE = ^Test(SoakAll|SFTP|HTTP|S3|ARM|Package|Monitoring|Kubernetes|NetworkFleet|SystemdGuide|Boot(Beside|BIOS|UEFI|Secure)|Firmware(GuideBucket|.*OverHTTP))

interop: ## tests against other programs; tests with UDP use both UDP paths
	-@scripts/install-peers
	$(GO) test -count=1 $(PATIENCE) $(VETTED) ./interop
	$(GO) test -count=1 $(PATIENCE) $(VETTED) -short -tags haul_portable -skip '$(UDP_ALIKE)' ./interop

SOAK ?= 1h

soak: ## run all protocols for SOAK, with reloads and faults, and check that haul does not grow; then TFTP for 20 times 6 simulated hours. Requires root
	HAUL_SOAK=6h $(GO) test -count=20 $(VETTED) -v -run '^TestSoakSimulated$$' ./tftp
	@mkdir -p bin
	HAUL_SOAK=$(SOAK) HAUL_SOAK_TABLE='$(CURDIR)/bin' $(GO) test -count=1 -timeout 0 -v -run '^TestSoakAll$$' ./interop

# No file is specific to one processor, so lint has vetted the code for linux/arm64, too.
cross: binaries ## build for every system that haul supports, and vet for the systems that lint has not checked
	@set -e; for t in $(filter-out linux/%,$(TARGETS)); do \
		echo "vet $$t"; GOOS=$${t%/*} GOARCH=$${t#*/} $(GO) vet ./...; \
	done

bench-peers: peers ## fetch and build the peers that haul is measured against
	scripts/install-bench-peers

# Programs of the suite around haul's packages, and the TCP client.
BENCH_OWN = bin/haulsftp bin/haultcp bin/haultcp-portable bin/tcpload

bench: build bin/bench $(BENCH_OWN) ## measure haul and its peers for some hours; ARGS=--quick takes five minutes. Requires root
	-@scripts/install-peers; scripts/install-bench-peers
	bin/bench run --bin bin $(ARGS)

bench-quick: ## a part of the measurements, in five minutes
	$(MAKE) bench ARGS='--quick $(ARGS)'

bench-guard: build bin/bench $(BENCH_OWN) ## compare with the previous commit, or with BASE, in ten minutes; fails if a load is slower. Requires root
	MAKE='$(MAKE)' BASE='$(BASE)' scripts/bench-guard $(ARGS)

bench-test: ## check that the benchmark suite works: its tests, and one small round of each kind with haul alone
	cd bench && $(GO) vet ./... && $(GO) test $(PATIENCE) ./...

bin/bench: FORCE
	cd bench && $(GO) build -o ../$@ .

bin/haulsftp bin/haultcp bin/tcpload: FORCE
	cd bench && $(GO) build -trimpath -buildvcs=false -o ../$@ ./$(@F)

bin/haultcp-portable: FORCE
	cd bench && $(GO) build -trimpath -buildvcs=false -tags haul_portable -o ../$@ ./haultcp

FORCE:

sizes: ## measure the sizes of the binaries, and write the table of docs/benchmarks.md
	GO='$(GO)' TARGETS='$(TARGETS)' scripts/sizes

microbench: ## run the benchmarks next to the code
	$(GO) test -run '^$$' -bench . -benchmem $(UNIT)

peers: ## fetch the interop tests' peers into bin/peers
	scripts/install-peers

clean:
	rm -rf bin
