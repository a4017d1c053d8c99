#!/usr/bin/env bash
# Prints the folder of a real prometheus and promtool. Where there is none and `CI` is `true` it unpacks Debian's package
# `prometheus` into the user's cache, so that no server is started; elsewhere it only says that they are absent.
# LODESMAN_PROMETHEUS=FOLDER names a folder that has both.
set -euo pipefail

cache=${XDG_CACHE_HOME:-$HOME/.cache}/lodesman/prometheus

say() { echo "prometheus.sh: $*" >&2; }
both() { [[ -x $1/prometheus && -x $1/promtool ]]; }

if [[ -n ${LODESMAN_PROMETHEUS:-} ]]; then
  both "$LODESMAN_PROMETHEUS" || {
    say "LODESMAN_PROMETHEUS=$LODESMAN_PROMETHEUS has no prometheus and promtool: correct or unset it"
    exit 1
  }
  echo "$LODESMAN_PROMETHEUS"
  exit
fi

found() {
  local path
  path=$(command -v promtool || true)
  if [[ -n $path ]] && both "$(dirname "$path")"; then dirname "$path"; return; fi
  both "$cache/usr/bin" && echo "$cache/usr/bin"
}

if found; then exit; fi
if [[ ${CI:-} != true ]]; then
  say "there is no Prometheus: install prometheus, or set LODESMAN_PROMETHEUS to the folder of its programs"
  exit 1
fi

mkdir -p "$(dirname "$cache")"
# One caller installs, the others wait. The lock belongs to descriptor 9, so it ends with this script.
exec 9> "$cache.lock"
flock 9
if found; then exit; fi

root=()
if [[ $(id -u) != 0 ]]; then root=(sudo); fi
say "unpacking Debian's prometheus (20 MB, once)"
work=$(mktemp -d "$cache.XXXXXX")
trap 'rm -rf "$work"' EXIT
download() { (cd "$work" && apt-get download --quiet=2 --option APT::Sandbox::User=root prometheus >&2); }
download || { "${root[@]}" apt-get update --quiet=2 >&2 && download; } || {
  say "Debian's package prometheus cannot be had"
  exit 1
}
dpkg-deb --extract "$work"/prometheus_*.deb "$work/unpacked"
"$work/unpacked/usr/bin/promtool" --version > /dev/null 2>&1 || {
  say "the promtool of the package does not run on this machine"
  exit 1
}
# A rename is atomic: nobody sees half of it.
rm -rf "$cache"
mv "$work/unpacked" "$cache"
found
