#!/usr/bin/env bash
# Prints the folder of the real etcd, kube-apiserver and kubectl that the tests of Kubernetes run on;
# on first use builds them from Go modules into the user's cache (e2e/testkube/build.sh).
#   KUBEBUILDER_ASSETS=FOLDER          names a folder that has them instead;
#   LODESMAN_TEST_KUBECONFIG=FILE      names a cluster instead, then nothing is printed.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

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

go=$("$root/scripts/go.sh") || fail "there is no Go"
GO=$go "$root/e2e/testkube/build.sh" || fail "kube-apiserver cannot be built"
