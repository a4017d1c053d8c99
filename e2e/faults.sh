#!/usr/bin/env bash
# Plays the faults that docs/robustness.md lists, TIMES times in a row (1), and says how often each failed.
# BESIDE=N keeps N compilers busy meanwhile.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo=${CARGO:-cargo}
# The name of the test stands last in a row of the table of faults.
mapfile -t faults < <(sed -n '/^## Faults/,/^## /s/^|.*| `\([a-z0-9_]*\)` |$/\1/p' docs/robustness.md)
((${#faults[@]} >= 40)) || { echo "faults.sh: ${#faults[@]} faults in docs/robustness.md" >&2; exit 1; }

work=$(mktemp -d)
# Each compiler is a group of processes of its own, which ends as a whole.
set -m
ended() {
  exec 2> /dev/null
  for job in $(jobs -p); do kill -- "-$job" || true; done
  wait || true
  rm -rf "$work"
}
trap ended EXIT
tests=(--package lodesman --test envoy --test grpc --test kube --test reload --test scenarios)
"$cargo" test --quiet "${tests[@]}" --no-run

busy() { while :; do "$cargo" rustc --quiet --jobs 1 --package lodesman --lib --target-dir "$work/target-$1" -- --emit=metadata || true; rm -rf "$work/target-$1"; done; }
for ((at = 0; at < ${BESIDE:-0}; at++)); do busy "$at" > /dev/null 2>&1 & done

failed=0
for ((round = 1; round <= ${TIMES:-1}; round++)); do
  begun=$SECONDS
  "$cargo" test --no-fail-fast "${tests[@]}" -- "${faults[@]}" > "$work/output" 2>&1 || true
  passed=$(grep -c '^test .* ok$' "$work/output" || true)
  echo "round $round: $passed of ${#faults[@]} in $((SECONDS - begun)) s"
  if ((passed != ${#faults[@]})); then
    failed=1
    grep '^test .*FAILED$' "$work/output" || tail -n 40 "$work/output"
    cp "$work/output" "${TMPDIR:-/tmp}/faults-$round.log"
    echo "its output: ${TMPDIR:-/tmp}/faults-$round.log"
  fi
done
exit "$failed"
