#!/bin/sh
# Builds the control planes of the gateways once for each state of their go.mod, and prints the folder that then holds
# them and their CRDs. Meanwhile modules and objects take some 14 GB; 320 MB stay.
set -eu
cd "$(dirname "$0")"
# shellcheck source=e2e/go-modules.sh
. ../go-modules.sh

build() {
  program envoy-gateway github.com/envoyproxy/gateway/cmd/envoy-gateway
  program istiod istio.io/istio/pilot/cmd/pilot-discovery
  crds envoy-gateway envoy-gateway github.com/envoyproxy/gateway charts/gateway-helm/charts/crds/crds/generated
  crds envoy-gateway envoy-gateway sigs.k8s.io/gateway-api config/crd/experimental
  crds istio istiod istio.io/istio manifests/charts/base/files/crd-all.gen.yaml
  crds istio istiod sigs.k8s.io/gateway-api config/crd/experimental
}

once 16 "Envoy Gateway and istiod (once, some 15 minutes on two cores)"
