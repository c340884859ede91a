#!/bin/sh
# Makes the files of this folder: gcc 12, binutils 2.40, xz 5.4 on Debian 12.
# They are committed, since sizes and addresses in the tests are theirs.
set -e
cc="gcc -g -O1 -nostdlib -ffreestanding -fcf-protection=none -ffile-prefix-map=$PWD=/src -Wl,--build-id=sha1 -Wl,-z,noseparate-code"
$cc -static-pie -fPIE prog.c -o prog
$cc -m32 -static -fno-pic prog.c -o prog32
objcopy --only-keep-debug prog prog.debug
objcopy --strip-all --add-gnu-debuglink=prog.debug prog prog.stripped
objcopy --compress-debug-sections=zlib prog.debug prog.zlib
objcopy --compress-debug-sections=zlib-gnu prog.debug prog.zdebug
objcopy --compress-debug-sections=zstd prog.debug prog.zstd
# MiniDebugInfo as the GDB manual says: a file with nothing but .symtab, compressed, in a stripped program.
objcopy -S --remove-section .gdb_index --remove-section .comment --keep-symbol=inner --keep-symbol=outer --keep-symbol=weak_name prog.debug mini
xz -f --check=crc32 mini
objcopy --strip-all --add-section .gnu_debugdata=mini.xz prog prog.mini
rm mini.xz
# Stubs: lazily bound, bound at once, and with the second table that CET needs.
stub="gcc -O1 -nostdlib -shared -fPIC -Wl,-z,noseparate-code -Wl,--build-id=none stub.c"
$stub -fcf-protection=none -Wl,-z,lazy -o stub.lazy
$stub -fcf-protection=none -Wl,-z,now -o stub.now
$stub -fcf-protection=full -Wl,-z,lazy,-z,ibtplt -o stub.cet
strip stub.lazy stub.now stub.cet
