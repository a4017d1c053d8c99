# shellcheck shell=sh
# What a build.sh, whose folder is the working directory, builds of Go modules once for each state of that folder; sourced by
# it. GO names the toolchain. Modules and objects lie in the folder $out until all is built, so that an interrupted build goes
# on where it was.

key=$({ cat ../go-modules.sh build.sh && find . -name 'go.*' -print0 | sort -z | xargs -0 cat; } | sha256sum | cut -c1-16)
out=${XDG_CACHE_HOME:-$HOME/.cache}/lodesman/$(basename "$PWD")/$key
export GOMODCACHE="$out/modules" GOCACHE="$out/objects" CGO_ENABLED=0
export GOFLAGS="-mod=readonly -trimpath -buildvcs=false ${GOFLAGS:-}"

# program FOLDER PACKAGE: the program of the module in FOLDER, as $out/LAST-PART-OF-PACKAGE.
program() {
  (cd "$1" && nice "$go" build -ldflags '-s -w' -o "$out/" "$2" >&2)
}

# crds NAME FOLDER MODULE PATH: what MODULE, in the version that FOLDER requires, has below PATH, into $out/crds/NAME.
crds() {
  module=$(cd "$2" && "$go" list -m -f '{{.Dir}}' "$3")
  mkdir -p "$out/crds/$1"
  find "$module/$4" -name '*.yaml' ! -name kustomization.yaml -exec cp {} "$out/crds/$1/" \;
  chmod -R u+w "$out/crds/$1"
}

# once GB WHAT: runs the function build where that was not done; prints $out.
once() {
  if [ ! -e "$out/complete" ]; then
    mkdir -p "$out"
    # One caller builds, the others wait. The lock belongs to descriptor 9, so it ends with this script.
    exec 9> "$out/lock"
    flock 9
  fi
  if [ ! -e "$out/complete" ]; then
    go=${GO:-$(../../scripts/go.sh)}
    free_kb=$(df -Pk "$out" | awk 'NR == 2 { print $4 }')
    if [ ! -d "$GOCACHE" ] && [ "$free_kb" -lt $(($1 * 1024 * 1024)) ]; then
      echo "build.sh: $out has less than $1 GB left" >&2
      exit 1
    fi
    echo "build.sh: building $2" >&2
    build
    "$go" clean -modcache
    rm -rf "$GOCACHE"
    touch "$out/complete"
  fi
  echo "$out"
}
