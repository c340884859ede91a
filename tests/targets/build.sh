#!/bin/sh
# Builds the targets: build.sh [OUTDIR], default bin beside this file.
set -eu
cd "$(dirname "$0")"
out=${1:-bin}
cc=${CC:-gcc}
command -v "$cc" >/dev/null || { echo "build.sh: no C compiler: install gcc, or set CC" >&2; exit 1; }
mkdir -p "$out"
for src in *.c; do
	"$cc" -O2 -g -Wall -Wextra -Werror -pthread -o "$out/${src%.c}" "$src"
done
