#!/bin/sh
# Builds KEDA's operator and its adapter once for each state of their go.mod, and prints the folder that then holds them and
# their CRDs. Meanwhile modules and objects take some 5 GB; 330 MB stay.
set -eu
cd "$(dirname "$0")"
# shellcheck source=e2e/go-modules.sh
. ../go-modules.sh

build() {
  program . github.com/kedacore/keda/v2/cmd/operator
  program . github.com/kedacore/keda/v2/cmd/adapter
  crds keda . github.com/kedacore/keda/v2 config/crd/bases
}

once 8 "KEDA (once, some 15 minutes on two cores)"
