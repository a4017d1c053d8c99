#!/usr/bin/env bash
# Builds helm once for each state of its module, and prints its path. HELM names a binary to use instead; HELM_GOCACHE a
# build cache to use and to keep, where otherwise a temporary one is removed at the end.
set -euo pipefail

if [[ -n ${HELM:-} ]]; then
  echo "$HELM"
  exit
fi
cd "$(dirname "${BASH_SOURCE[0]}")"
key=$(cat go.mod go.sum build.sh | sha256sum | cut -c1-16)
folder=${XDG_CACHE_HOME:-$HOME/.cache}/lodesman/helm/$key

if [[ ! -x $folder/helm ]]; then
  mkdir -p "$folder"
  # One caller builds, the others wait. The lock belongs to descriptor 9, so it ends with this script.
  exec 9> "$folder/lock"
  flock 9
fi
if [[ ! -x $folder/helm ]]; then
  go=$(../../scripts/go.sh)
  echo "build.sh: building helm (once, some 2 minutes on two cores)" >&2
  work=$(mktemp -d "$folder/build.XXXXXX")
  trap 'rm -rf "$work"' EXIT
  GOCACHE=${HELM_GOCACHE:-$work/cache} GOFLAGS=-mod=readonly GOTOOLCHAIN=local CGO_ENABLED=0 \
    "$go" build -trimpath -buildvcs=false -ldflags "-s -w" -o "$work/helm" helm.sh/helm/v3/cmd/helm >&2
  mv "$work/helm" "$folder/helm"
fi
echo "$folder/helm"
