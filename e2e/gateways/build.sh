#!/bin/sh
# Builds the control planes of the gateways once and prints the folder that holds them with their CRDs.
# Modules and objects are kept in that folder until both are built (about 15 GB), then removed: 330 MB stay.
set -eu
cd "$(dirname "$0")"

key=$(cat build.sh ./*/go.mod ./*/go.sum | sha256sum | cut -c1-16)
out=${XDG_CACHE_HOME:-$HOME/.cache}/lodesman/gateways/$key
export GOMODCACHE="$out/modules" GOCACHE="$out/objects" GOTOOLCHAIN=local CGO_ENABLED=0
export GOFLAGS="-mod=readonly -trimpath ${GOFLAGS:-}"

# program FOLDER PACKAGE: the program of the module in FOLDER, as $out/<last part of the package>.
program() {
  (cd "$1" && nice -n 15 go build -ldflags '-s -w' -o "$out/" "$2" >&2)
}

# crds NAME FOLDER MODULE PATH…: what MODULE, as FOLDER requires it, has below PATH, in $out/crds/NAME.
crds() {
  name=$1 folder=$2 module=$3
  shift 3
  source=$(cd "$folder" && go list -m -f '{{.Dir}}' "$module")
  mkdir -p "$out/crds/$name"
  for path; do find "$source/$path" -name '*.yaml' ! -name kustomization.yaml -exec cp {} "$out/crds/$name/" \; ; done
  chmod -R u+w "$out/crds/$name"
}

if [ ! -e "$out/complete" ]; then
  echo "building Envoy Gateway and istiod (ten minutes and 15 GB of disk, once)" >&2
  mkdir -p "$out"
  program envoy-gateway github.com/envoyproxy/gateway/cmd/envoy-gateway
  program istiod istio.io/istio/pilot/cmd/pilot-discovery
  crds envoy-gateway envoy-gateway github.com/envoyproxy/gateway charts/gateway-helm/charts/crds/crds/generated
  crds envoy-gateway envoy-gateway sigs.k8s.io/gateway-api config/crd/experimental
  crds istio istiod istio.io/istio manifests/charts/base/files/crd-all.gen.yaml
  crds istio istiod sigs.k8s.io/gateway-api config/crd/experimental
  go clean -modcache
  rm -rf "$GOCACHE"
  touch "$out/complete"
fi
echo "$out"
