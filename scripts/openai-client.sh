#!/usr/bin/env bash
# openai-client.sh BASE_URL MODEL: uses the OpenAI client library of Python against BASE_URL, from a
# throw-away environment. Exits 77 when the library cannot be installed, and 1 then if CI is `true`.
set -euo pipefail

version=2.8.0
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

(($# == 2)) || {
  echo "usage: openai-client.sh BASE_URL MODEL" >&2
  exit 64
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

skip() {
  echo "openai-client.sh: $*" >&2
  if [[ ${CI:-} == true ]]; then exit 1; else exit 77; fi
}

command -v python3 > /dev/null || skip "python3 is missing: install it"
python3 -m venv "$work/venv" || skip "python3 cannot make an environment: install python3-venv"
"$work/venv/bin/python" -m pip --disable-pip-version-check install --quiet "openai==$version" ||
  skip "openai $version cannot be installed: check the network and pip's index"

# Loopback is never behind a proxy.
NO_PROXY=* no_proxy=* "$work/venv/bin/python" "$root/tests/openai_client.py" "$@"
