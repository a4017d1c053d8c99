#!/usr/bin/env bash
# Installs valgrind where it is absent and `CI` is `true`; elsewhere only says that it is. `make gate` counts with it.
set -euo pipefail

say() { echo "valgrind.sh: $*" >&2; }

if command -v valgrind > /dev/null; then exit; fi
if [[ ${CI:-} != true ]]; then
  say "there is no valgrind: install it to count instructions"
  exit 1
fi

root=()
if [[ $(id -u) != 0 ]]; then root=(sudo); fi
say "installing valgrind"
install() { "${root[@]}" apt-get install --yes --quiet=2 --no-install-recommends valgrind >&2; }
install || { "${root[@]}" apt-get update --quiet=2 >&2 && install; } || {
  say "valgrind cannot be installed"
  exit 1
}
