#!/bin/sh
# Builds the measuring programs into bin and runs a comparison: run.sh scan [PART...].
# QUICK=1: one short round, to see that everything works.
set -eu
cd "$(dirname "$0")"
export CGO_ENABLED=0
unset GOFLAGS
command -v gcc >/dev/null || { echo "bench: gcc is missing: the limit programs are in C" >&2; exit 1; }
mkdir -p bin
for p in list fds fdhost maps threads memory; do gcc -O2 -march=native -Wall -Wextra -Werror -o "bin/c-$p" "c/$p.c"; done
gcc -O2 -Wall -Wextra -Werror -pthread -o bin/fixture c/fixture.c
go build -trimpath -o bin ./ours ./procfs ./gopsutil
go build -trimpath -o bin/bench .
(cd ../.. && go test -c -o tests/bench/bin/api.test ./api && go build -trimpath -o tests/bench/bin/procinsh .)
cd bin
[ $# -gt 0 ] || set -- scan
exec ./bench "$@"
