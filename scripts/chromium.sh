#!/usr/bin/env bash
# Prints the path of a Chromium that can run headless. Where there is none and `CI` is `true` it installs Debian's
# `chromium-headless-shell`; elsewhere it only says that it is absent. LODESMAN_CHROMIUM=PATH names a binary to use.
set -euo pipefail

say() { echo "chromium.sh: $*" >&2; }

if [[ -n ${LODESMAN_CHROMIUM:-} ]]; then
  [[ -x $LODESMAN_CHROMIUM ]] || {
    say "LODESMAN_CHROMIUM=$LODESMAN_CHROMIUM is not an executable file: correct or unset it"
    exit 1
  }
  echo "$LODESMAN_CHROMIUM"
  exit
fi

found() {
  local name
  for name in chromium-headless-shell chromium chromium-browser google-chrome; do
    if command -v "$name"; then return; fi
  done
  return 1
}

if found; then exit; fi
if [[ ${CI:-} != true ]]; then
  say "there is no Chromium: install chromium-headless-shell, or set LODESMAN_CHROMIUM to the path of one"
  exit 1
fi

root=()
if [[ $(id -u) != 0 ]]; then root=(sudo); fi
say "installing chromium-headless-shell (60 MB)"
install() {
  "${root[@]}" apt-get install --yes --quiet=2 --no-install-recommends chromium-headless-shell fonts-dejavu-core >&2
}
install || { "${root[@]}" apt-get update --quiet=2 >&2 && install; } || {
  say "chromium-headless-shell cannot be installed"
  exit 1
}
found
