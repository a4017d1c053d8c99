#!/usr/bin/env bash
# Prints the path of libfaketime, by which tests step the clock of a process. Where there is none and `CI` is `true` it
# installs Debian's `libfaketime`; elsewhere it only says that it is absent.
set -euo pipefail

say() { echo "faketime.sh: $*" >&2; }

found() {
  local path
  for path in /usr/lib/*/faketime/libfaketime.so.1; do
    if [[ -f $path ]]; then echo "$path"; return; fi
  done
  return 1
}

if found; then exit; fi
if [[ ${CI:-} != true ]]; then
  say "there is no libfaketime: install it to see what a clock that steps does"
  exit 1
fi

root=()
if [[ $(id -u) != 0 ]]; then root=(sudo); fi
say "installing libfaketime"
install() { "${root[@]}" apt-get install --yes --quiet=2 --no-install-recommends libfaketime >&2; }
install || { "${root[@]}" apt-get update --quiet=2 >&2 && install; } || {
  say "libfaketime cannot be installed"
  exit 1
}
found
