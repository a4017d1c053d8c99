#!/bin/sh
# Runs a program as ../gateways/run.sh does, where the names that a cluster's DNS knows are those of the file hosts.
set -eu

folder=$(dirname "$0")
# shellcheck disable=SC2016  # for the inner shell
exec "$folder/../gateways/run.sh" sh -c 'mount --bind "$0" /etc/hosts && exec "$@"' "$folder/hosts" "$@"
