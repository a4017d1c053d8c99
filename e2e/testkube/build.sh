#!/usr/bin/env bash
# Builds testkube once for each state of its sources, and prints the folder that then holds etcd,
# kube-apiserver, kube-controller-manager and kubectl. GO names the toolchain; TESTKUBE_GOCACHE a
# build cache to use and to keep, where otherwise a temporary one (3.6 GB) is removed at the end.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")"
go=${GO:-go}
kubernetes=$(awk '$1 == "k8s.io/kubernetes" { print $2 }' go.mod)
key=$(cat ./*.go go.mod go.sum build.sh | sha256sum | cut -c1-16)
folder=${XDG_CACHE_HOME:-$HOME/.cache}/lodesman/testkube/$key

if [[ ! -x $folder/kubectl ]]; then
  mkdir -p "$folder"
  # One caller builds, the others wait. The lock belongs to descriptor 9, so it ends with this script.
  exec 9> "$folder/lock"
  flock 9
fi
if [[ ! -x $folder/kubectl ]]; then
  command -v "$go" > /dev/null || { echo "build.sh: $go is missing" >&2; exit 1; }
  echo "build.sh: building Kubernetes $kubernetes (once, some 6 minutes on two cores)" >&2
  work=$(mktemp -d "$folder/build.XXXXXX")
  trap 'rm -rf "$work"' EXIT
  IFS=. read -r major minor _ <<< "${kubernetes#v}"
  version=k8s.io/component-base/version
  # Without the version the API server takes itself for one of the future and refuses to start some features.
  GOCACHE=${TESTKUBE_GOCACHE:-$work/cache} GOFLAGS=-mod=readonly GOTOOLCHAIN=local CGO_ENABLED=0 \
    "$go" build -trimpath -buildvcs=false -o "$work/testkube" -ldflags "-s -w \
      -X $version.gitVersion=$kubernetes -X $version.gitMajor=$major -X $version.gitMinor=$minor" . >&2
  # Renames are atomic, and kubectl comes last: who sees it sees all.
  mv "$work/testkube" "$folder/testkube"
  for name in etcd kube-apiserver kube-controller-manager kubectl; do
    ln -sf testkube "$work/$name"
    mv "$work/$name" "$folder/$name"
  done
fi
echo "$folder"
