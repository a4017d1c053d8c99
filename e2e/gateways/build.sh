#!/bin/sh
# Builds the control planes of the gateways once for each state of their go.mod, and prints the folder that then holds
# them and their CRDs. GO names the toolchain. Modules and objects, some 14 GB, lie in that folder until all is built, so
# that an interrupted build goes on where it was; 320 MB stay.
set -eu
cd "$(dirname "$0")"

go=${GO:-go}
needed_kb=$((16 * 1024 * 1024))
key=$(cat build.sh ./*/go.mod ./*/go.sum | sha256sum | cut -c1-16)
out=${XDG_CACHE_HOME:-$HOME/.cache}/lodesman/gateways/$key
export GOMODCACHE="$out/modules" GOCACHE="$out/objects" CGO_ENABLED=0
export GOFLAGS="-mod=readonly -trimpath -buildvcs=false ${GOFLAGS:-}"

# fail MESSAGE
fail() {
  echo "build.sh: $1" >&2
  exit 1
}

# program FOLDER PACKAGE: the program of the module in FOLDER, as $out/LAST-PART-OF-PACKAGE.
program() {
  (cd "$1" && nice "$go" build -ldflags '-s -w' -o "$out/" "$2" >&2)
}

# crds NAME FOLDER MODULE PATH: what MODULE, in the version that FOLDER requires, has below PATH, into $out/crds/NAME.
crds() {
  module=$(cd "$2" && "$go" list -m -f '{{.Dir}}' "$3")
  mkdir -p "$out/crds/$1"
  find "$module/$4" -name '*.yaml' ! -name kustomization.yaml -exec cp {} "$out/crds/$1/" \;
  chmod -R u+w "$out/crds/$1"
}

if [ ! -e "$out/complete" ]; then
  mkdir -p "$out"
  # One caller builds, the others wait. The lock belongs to descriptor 9, so it ends with this script.
  exec 9> "$out/lock"
  flock 9
fi
if [ ! -e "$out/complete" ]; then
  command -v "$go" > /dev/null || fail "$go is missing: install Go, or name it by GO"
  free=$(df -Pk "$out" | awk 'NR == 2 { print $4 }')
  [ -d "$GOCACHE" ] || [ "$free" -ge "$needed_kb" ] || fail "$out has less than 16 GB left"
  echo "build.sh: building Envoy Gateway and istiod (once, some 15 minutes on two cores)" >&2
  program envoy-gateway github.com/envoyproxy/gateway/cmd/envoy-gateway
  program istiod istio.io/istio/pilot/cmd/pilot-discovery
  crds envoy-gateway envoy-gateway github.com/envoyproxy/gateway charts/gateway-helm/charts/crds/crds/generated
  crds envoy-gateway envoy-gateway sigs.k8s.io/gateway-api config/crd/experimental
  crds istio istiod istio.io/istio manifests/charts/base/files/crd-all.gen.yaml
  crds istio istiod sigs.k8s.io/gateway-api config/crd/experimental
  "$go" clean -modcache
  rm -rf "$GOCACHE"
  touch "$out/complete"
fi
echo "$out"
