#!/usr/bin/env bash
# shell-files.sh BINARY FOLDER: writes the manual pages and the completions of lodesman below FOLDER, where shells and man look
# for them below /usr/local/share.
set -euo pipefail

binary=${1:?usage: shell-files.sh BINARY FOLDER}
folder=${2:?usage: shell-files.sh BINARY FOLDER}

man=$folder/man/man1
mkdir -p "$man" "$folder"/{bash-completion/completions,zsh/site-functions,fish/vendor_completions.d}
"$binary" man > "$man/lodesman.1"
# The subcommands are those that the page of all has.
for name in $(sed -n 's/^lodesman\\-\([a-z]*\)(1)$/\1/p' "$man/lodesman.1"); do
  [[ $name == help ]] || "$binary" man "$name" > "$man/lodesman-$name.1"
done
[[ -s $man/lodesman-top.1 ]] || { echo "shell-files.sh: no subcommands in $man/lodesman.1" >&2; exit 1; }
"$binary" completions bash > "$folder/bash-completion/completions/lodesman"
"$binary" completions zsh > "$folder/zsh/site-functions/_lodesman"
"$binary" completions fish > "$folder/fish/vendor_completions.d/lodesman.fish"
