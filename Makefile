# Everything runs with the stock Go toolchain; the first call downloads the modules.
GO      ?= go
SEEDS   ?= 1..20
OUT     ?= out

.PHONY: help demo test lint bench detection race coverage-marks clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: ## run all scenarios over some seeds, print the verdict table, draw a first throughput picture
	$(GO) build -o bin/faultline ./cmd/faultline
	bin/faultline run --seeds $(SEEDS) --out $(OUT)/failures
	bin/faultline bench producer-batch --out $(OUT)/bench

test: lint ## vet, lint, unit and script tests, every scenario over a few seeds with the determinism self-check
	$(GO) test ./...
	$(MAKE) race

race: ## the tests in which real concurrency happens, under the race detector
	$(GO) test -race ./sim/host ./workloads/campaign
	$(GO) test -race -run 'Real|Host|Example' ./broker ./broker/log ./producer ./consumer ./coord

lint: ## formatting, vet, staticcheck
	@out=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$out" ]; then echo "not formatted (gofmt -w):" $$out; exit 1; fi
	$(GO) vet ./...
	$(GO) tool staticcheck ./...

bench: ## speed and memory: kernel, logs, clients, whole scenarios
	$(GO) test -run '^$$' -bench . -benchmem ./sim/... ./broker/... ./coord/... ./producer/... ./consumer/... ./workloads/...

detection: ## plant every bug of the catalogue and measure how many seeds it takes to catch it
	$(GO) run ./cmd/detection

coverage-marks: ## run all scenarios and list the failpoints and marks that they do not reach; minutes
	$(GO) run ./cmd/marks

clean: ## remove what was built and written
	rm -rf bin $(OUT)
