#!/usr/bin/env bash
# Checks that a binary runs in the image of the Dockerfile: its libraries are those of the base image, distroless/cc for
# Debian 12, and it asks for no younger C library than the one there.
#   image-check.sh BINARY [BYTES]     fails also when it is larger than BYTES.
set -euo pipefail

binary=${1:?usage: image-check.sh BINARY [BYTES]}
libraries='ld-linux-(x86-64|aarch64)\.so\.[12]|lib(c|m)\.so\.6|libgcc_s\.so\.1'
newest=2.36

fail() { echo "image-check.sh: $binary $*" >&2; exit 1; }

needs=$(readelf --dynamic "$binary" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
[[ -n $needs ]] || fail "is not a dynamic executable"
foreign=$(grep -vxE "$libraries" <<< "$needs" || true)
[[ -z $foreign ]] || fail "needs what the image has not: ${foreign//$'\n'/ }"

glibc=$(readelf --version-info "$binary" | grep -oE 'GLIBC_[0-9.]+' | sort -Vu | tail -1)
oldest=$(printf '%s\n' "${glibc#GLIBC_}" "$newest" | sort -V | head -1)
[[ $oldest == "${glibc#GLIBC_}" ]] || fail "needs $glibc, the image has $newest"

bytes=$(wc -c < "$binary")
[[ -z ${2:-} || $bytes -le $2 ]] || fail "has $bytes bytes, more than $2"
echo "$binary: $bytes bytes, needs ${needs//$'\n'/ } up to $glibc"
