#!/bin/sh
# Builds the programs of sensors/ into bin and measures what the sensors cost the
# programs that they watch.
# QUICK=1: one short round, to see that everything works.
set -eu
cd "$(dirname "$0")"
export CGO_ENABLED=0
unset GOFLAGS
command -v gcc >/dev/null || { echo "bench: gcc is missing: the load is in C" >&2; exit 1; }
mkdir -p bin
gcc -O2 -Wall -Wextra -Werror -o bin/sensors-load sensors/c/load.c
go build -trimpath -o bin/sensors ./sensors
exec bin/sensors "$@"
