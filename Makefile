# The face of the project; `make help` lists what there is.
CARGO ?= cargo
DOCKER ?= docker
BUILT := $(or $(CARGO_TARGET_DIR),target)
IMAGE ?= lodesman:$(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)

.PHONY: help demo demo-k8s test gate e2e-kind lint fuzz docs load image image-check clean bench screenshots shell-files faults soak deny sbom e2e-gateways e2e-keda e2e-vllm
.DEFAULT_GOAL := help

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## compare round robin with Lodesman behind a real Envoy; ONCE=1 ends by itself
	@echo "building Lodesman and the demo (some minutes the first time)"
	@$(CARGO) build --release -p lodesman --bin lodesman
	@$(CARGO) build --release -p lodesman-e2e --no-default-features --bin demo
	@$(BUILT)/release/demo

demo-k8s: ## apply the manifests to a real Kubernetes API server and send requests through a real Envoy; ONCE=1 ends by itself
	@echo "building Lodesman and the demo (some minutes the first time)"
	@$(CARGO) build --release -p lodesman --bin lodesman
	@$(CARGO) build --release -p lodesman-e2e --no-default-features --features kube --bin demo-k8s
	@$(BUILT)/release/demo-k8s

test: lint ## lints, documentation, and all tests; installs the real Envoy and Kubernetes that they need
	@scripts/envoy.sh > /dev/null
	@scripts/testkube.sh > /dev/null || [ "$$CI" != true ]
	@scripts/chromium.sh > /dev/null || [ "$$CI" != true ]
	@e2e/helm/build.sh > /dev/null || [ "$$CI" != true ]
	@scripts/faketime.sh > /dev/null || [ "$$CI" != true ]
	@scripts/prometheus.sh > /dev/null || [ "$$CI" != true ]
	$(CARGO) test --workspace
	@$(MAKE) --no-print-directory gate

gate: ## count the instructions of a request, by valgrind, against their limits (benches/gate); builds an optimized binary
	@if scripts/valgrind.sh; then \
	  $(CARGO) build --release -p lodesman --bin lodesman && \
	  $(CARGO) test --quiet --workspace --bench gate -- $(BUILT)/release/lodesman; \
	else [ "$$CI" != true ]; fi

e2e-kind: ## the scenarios of the tests on a cluster of kind with GATEWAY (istio, envoy-gateway); needs Docker
	@e2e/kind.sh $(GATEWAY)

lint: ## formatting and lints, warnings are errors; documentation builds without a broken link
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --all-features -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --quiet --no-deps --document-private-items --workspace

e2e-gateways: ## put the real Envoy Gateway and istiod in front of Lodesman; builds them once (15 minutes, 15 GB of disk meanwhile)
	@scripts/envoy.sh > /dev/null
	@scripts/testkube.sh > /dev/null
	@planes=$$(e2e/gateways/build.sh) && \
	  $(CARGO) build -p lodesman --bin lodesman && \
	  $(CARGO) build -p lodesman-e2e --no-default-features --features gateways --bin gateways && \
	  e2e/gateways/run.sh $(BUILT)/debug/gateways --planes "$$planes"

e2e-keda: ## let the real KEDA scale simulated model servers from zero and back; builds it once (15 minutes, 8 GB of disk meanwhile)
	@scripts/envoy.sh > /dev/null
	@scripts/testkube.sh > /dev/null
	@keda=$$(e2e/keda/build.sh) && \
	  $(CARGO) build -p lodesman --bin lodesman && \
	  $(CARGO) build -p lodesman-e2e --no-default-features --features kube --bin keda && \
	  e2e/keda/run.sh $(BUILT)/debug/keda --keda "$$keda"

e2e-vllm: ## compare round robin with Lodesman on two real vLLM servers, without a GPU; installs vLLM once (3 minutes, 6 GB of disk, 10 GB of memory)
	@scripts/envoy.sh > /dev/null
	@vllm=$$(e2e/vllm/install.sh) && \
	  echo "building Lodesman (some minutes the first time)" && \
	  $(CARGO) build --release -p lodesman --bin lodesman && \
	  $(CARGO) build --release -p lodesman-e2e --no-default-features --bin vllm && \
	  $(BUILT)/release/vllm --vllm "$$vllm"

fuzz: ## coverage-guided fuzzing, SECONDS_EACH (60) for each target; needs a nightly toolchain, installs cargo-fuzz
	@$(CARGO) fuzz --version > /dev/null 2>&1 || $(CARGO) install --quiet --locked cargo-fuzz
	@cd fuzz && targets=$$($(CARGO) +nightly fuzz list) && for target in $$targets; do \
	  mkdir -p corpus/$$target && \
	  $(CARGO) +nightly fuzz run $$target corpus/$$target ../tests/fuzz/corpus/$$target -- \
	    -max_total_time=$${SECONDS_EACH:-60} || exit 1; done

faults: ## play the faults of docs/robustness.md, TIMES (1) times in a row, beside BESIDE (0) compilers
	@scripts/envoy.sh > /dev/null
	@scripts/testkube.sh > /dev/null
	@e2e/faults.sh

soak: ## an hour (SECONDS_EACH) of load with churn, and what memory that takes
	@scripts/envoy.sh > /dev/null
	@LODESMAN_SOAK_SECONDS=$${SECONDS_EACH:-3600} $(CARGO) test -p lodesman --test envoy soak -- --nocapture

deny: ## licences, sources and duplicates of what is built in (deny.toml); installs cargo-deny
	@$(CARGO) deny --version > /dev/null 2>&1 || $(CARGO) install --quiet --locked cargo-deny
	@$(CARGO) deny --workspace check licenses bans sources

sbom: ## a CycloneDX list of what is built in, target/lodesman.cdx.json; installs cargo-cyclonedx
	@$(CARGO) cyclonedx --version > /dev/null 2>&1 || $(CARGO) install --quiet --locked cargo-cyclonedx
	@$(CARGO) cyclonedx --quiet --format json --manifest-path Cargo.toml --override-filename lodesman.cdx && \
	  mv lodesman.cdx.json $(BUILT)/ && rm -f e2e/lodesman.cdx.json && echo $(BUILT)/lodesman.cdx.json

docs: ## the documentation of the code
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --no-deps --document-private-items -p lodesman
	@echo "open $(BUILT)/doc/lodesman/index.html"

screenshots: ## make the pictures of the documentation anew (docs/images), in a real terminal and a real Chromium
	@scripts/envoy.sh > /dev/null
	@$(CARGO) build -p lodesman --bin lodesman
	@$(CARGO) build -p lodesman-e2e --no-default-features --bin screenshots
	@mkdir -p docs/images && $(BUILT)/debug/screenshots docs/images

load: ## the load generator; for example make load ARGS='127.0.0.1:9002 --requests 1000'
	$(CARGO) run --release -p lodesman-e2e --bin load -- $(ARGS)

bench: ## measure what Lodesman costs against its own transport and plain tonic (12 minutes); for example ARGS='--only 1,15'
	@echo "building Lodesman and the bench (some minutes the first time)"
	@$(CARGO) build --release -p lodesman --bin lodesman
	@$(CARGO) build --release -p lodesman-e2e --bin bench --bin plain
	@$(CARGO) bench -p lodesman --bench micro -- --json > $(BUILT)/micro.jsonl
	@$(BUILT)/release/bench --micro $(BUILT)/micro.jsonl --json $(BUILT)/bench.json $(ARGS)

image: ## the image IMAGE (lodesman:VERSION) by Docker, or what DOCKER names
	$(DOCKER) build --build-arg COMMIT=$$(git rev-parse --short=12 HEAD) --tag $(IMAGE) .

shell-files: ## the manual pages and the completions, below target/share
	$(CARGO) build --release -p lodesman --bin lodesman
	@scripts/shell-files.sh $(BUILT)/release/lodesman $(BUILT)/share

image-check: ## build what is in the image, and check that it runs there; needs no Docker, takes minutes
	$(CARGO) build --profile dist -p lodesman --bin lodesman
	@scripts/image-check.sh $(BUILT)/dist/lodesman 25000000

clean: ## remove everything that was built or installed here
	$(CARGO) clean
	rm -rf .envoy
