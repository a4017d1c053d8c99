# The face of the project; `make help` lists what there is.
CARGO ?= cargo
DOCKER ?= docker
BUILT := $(or $(CARGO_TARGET_DIR),target)
IMAGE ?= lodesman:$(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)

.PHONY: help demo demo-k8s test e2e-kind lint fuzz docs load image image-check clean e2e-gateways e2e-vllm
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
	@e2e/helm/build.sh > /dev/null || [ "$$CI" != true ]
	$(CARGO) test --workspace

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
	  $(CARGO) +nightly fuzz run $$target -- -max_total_time=$${SECONDS_EACH:-60} || exit 1; done

docs: ## the documentation of the code
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --no-deps --document-private-items -p lodesman
	@echo "open $(BUILT)/doc/lodesman/index.html"

load: ## the load generator; for example make load ARGS='127.0.0.1:9002 --requests 1000'
	$(CARGO) run --release -p lodesman-e2e --bin load -- $(ARGS)

image: ## the image IMAGE (lodesman:VERSION) by Docker, or what DOCKER names
	$(DOCKER) build --build-arg COMMIT=$$(git rev-parse --short=12 HEAD) --tag $(IMAGE) .

image-check: ## build what is in the image, and check that it runs there; needs no Docker, takes minutes
	$(CARGO) build --profile dist -p lodesman --bin lodesman
	@scripts/image-check.sh $(BUILT)/dist/lodesman 25000000

clean: ## remove everything that was built or installed here
	$(CARGO) clean
	rm -rf .envoy
