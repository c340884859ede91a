#!/bin/bash
# Makes the fixtures of this directory and their expected texts. The results are
# committed; run it again only to add one, with the tools of the list below.
#
#   gcc 12.2, binutils 2.40, clang/llvm 19.1, dwz 0.15, rustc 1.95
#
# NAME.want holds what llvm-symbolizer says of every address of .text in a copy
# without symbol table (so that all names come from DWARF), as runs of equal
# answers: "first-last function file:line < caller file:line".
set -eu
cd "$(dirname "$0")"
src=$PWD
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
cp -r main.c other.c names.cc plain.s lib.rs sub "$out"
cd "$out"

C="-O2 -nostdlib -static -fno-asynchronous-unwind-tables -fno-stack-protector -fcf-protection=none -ffile-prefix-map=$out=/src -Wl,--build-id=none -Wl,-z,noseparate-code"
GCC="gcc $C"
CLANG="clang-19 $C -fuse-ld=lld"
both="main.c other.c"

$GCC -gdwarf-5 $both -o gcc5
$GCC -gdwarf-4 $both -o gcc4
$GCC -gdwarf-3 -gstrict-dwarf $both -o gcc3
$GCC -gdwarf-2 -gstrict-dwarf $both -o gcc2
$GCC -gdwarf-5 -gdwarf64 $both -o gcc64
$GCC -gdwarf-5 -m32 $both -o gcc32
objcopy --compress-debug-sections=zlib gcc5 zlib
objcopy --compress-debug-sections=zlib-gnu gcc4 zdebug
llvm-objcopy-19 --compress-debug-sections=zstd gcc5 zstd
$GCC -gdwarf-5 -O0 $both -o gcc-o0
# Order of code other than order of sources; never_called is thrown away.
$GCC -gdwarf-5 -ffunction-sections -Wl,--gc-sections -Wl,--sort-section=name $both -o sections
$GCC -gdwarf-4 -ffunction-sections -Wl,--gc-sections $both -o sections4
$GCC -gdwarf-5 -flto -ffat-lto-objects $both -o lto
$GCC -gdwarf-5 -gsplit-dwarf $both -o split
$CLANG -gdwarf-5 $both -o clang5
$CLANG -gdwarf-4 $both -o clang4
$CLANG -gdwarf-4 -gdwarf64 $both -o clang64
$CLANG -gdwarf-5 -ffunction-sections -Wl,--gc-sections $both -o clang-sections
$CLANG -gdwarf-5 -flto $both -o clang-lto
# One unit that .debug_aranges lists and one that it does not.
$GCC -gdwarf-5 -c main.c -o main.o
clang-19 $C -gdwarf-5 -c other.c -o other.o 2>/dev/null
$GCC main.o other.o -o mixed
g++ $C -std=c++17 -gdwarf-5 names.cc -o names
clang++-19 $C -fuse-ld=lld -std=c++17 -gdwarf-5 names.cc -o names-clang
g++ $C -std=c++17 -gdwarf-4 -fdebug-types-section names.cc -o types4
g++ $C -std=c++17 -gdwarf-5 -fdebug-types-section names.cc -o types5
$GCC -gdwarf-5 plain.s -o asm
rustc -O -g --remap-path-prefix="$out=/src" -C panic=abort -C link-arg=-nostdlib -C link-arg=-static -C link-arg=-Wl,--build-id=none -C relocation-model=static -C symbol-mangling-version=v0 lib.rs -o rust
# dwz moves what two files have in common to a third; and within one file to
# units of its own. llvm-symbolizer does not follow that: it is asked before.
for n in 1 2; do
	${GCC/--build-id=none/--build-id=sha1} -gdwarf-5 -DNUMBER=$n $both -o dwz$n
done
$GCC -gdwarf-4 -flto -ffat-lto-objects $both -o dwz-single

want() { # FILE: makes FILE.want
	objcopy --strip-all --keep-section='.debug_*' "$1" "$1.nosyms"
	python3 "$src/want.py" "$1.nosyms" > "$1.want"
	cp "$1.want" "$src"
}
# The others have the same code as one of these.
for f in gcc5 gcc2 gcc32 gcc-o0 sections sections4 lto split clang5 clang-sections clang-lto mixed names names-clang asm rust dwz1; do
	want "$f"
done
dwz -m dwz.alt -h dwz1 dwz2
dwz dwz-single
cp gcc5 gcc4 gcc3 gcc2 gcc64 gcc32 gcc-o0 sections sections4 lto split clang5 clang4 clang64 clang-sections clang-lto mixed names names-clang types4 types5 asm rust zlib zdebug zstd dwz1 dwz.alt dwz-single "$src"
