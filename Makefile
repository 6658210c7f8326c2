# Everything CI does is in .ci/run; the targets below are shortcuts to it and to the tools of daily work.

FUZZTIME ?= 30s
BENCH    ?= .
COUNT    ?= 1

.DEFAULT_GOAL := help
.PHONY: help build test race lint fuzz bench cross check clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## build ./rmmjob for this machine, static and stripped
	CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o rmmjob$(shell go env GOEXE) ./cmd/rmmjob

test: ## run the tests
	go test ./...

race: ## run the tests shuffled and with the race detector (needs gcc)
	@bash .ci/run race

lint: ## check format, vet and lint, the arrows between the packages included
	@bash .ci/run format vet lint

fuzz: ## fuzz every target for FUZZTIME (30s); commit the inputs it finds
	@set -eu; list=$$(go test -list '^Fuzz' ./...); \
	printf '%s\n' "$$list" | awk '/^Fuzz/ { name[n++] = $$1 } /^ok/ { for (i = 0; i < n; i++) print $$2, name[i]; n = 0 }' | \
	while read -r pkg name; do \
		echo "== $$pkg $$name"; \
		go test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) "$$pkg" </dev/null; \
	done

bench: ## run the benchmarks that match BENCH, COUNT times (10 for benchstat)
	go test -run '^$$' -bench '$(BENCH)' -benchmem -count $(COUNT) ./...

cross: ## build dist/rmmjob-* for linux, windows and darwin on amd64 and arm64
	@bash .ci/run cross

check: ## everything that CI runs
	@bash .ci/run

clean: ## remove what the targets above built
	rm -rf dist rmmjob rmmjob.exe coverage.out
