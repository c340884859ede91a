#!/bin/sh
# Builds the programs of stop/ into bin and compares how long a target stands still.
# Arguments choose sizes: stop.sh idle-1 spin-64.
# QUICK=1: a few rounds on small sizes, to see that everything works.
set -eu
cd "$(dirname "$0")"
export CGO_ENABLED=0
unset GOFLAGS
command -v gcc >/dev/null || { echo "bench: gcc is missing: the target and the floor are in C" >&2; exit 1; }
mkdir -p bin
for p in target floor; do gcc -O2 -g -Wall -Wextra -Werror -pthread -o "bin/stop-$p" "stop/c/$p.c"; done
go build -trimpath -o bin/stop-ours ./stop/ours
go build -trimpath -o bin/stop ./stop
bin/stop "$@" & # in the background, where it may start a session of its own
trap 'kill $!; wait $!; exit 1' INT TERM HUP
wait $!
