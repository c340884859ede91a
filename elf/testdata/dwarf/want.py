"""Prints what llvm-symbolizer says of every address of .text, as runs. See build.sh."""
import re
import subprocess
import sys

path = sys.argv[1]
for line in subprocess.run(["readelf", "-SW", path], capture_output=True, text=True).stdout.splitlines():
    m = re.match(r"\s*\[\s*\d+\]\s+\.text\s+\S+\s+(\S+)\s+\S+\s+(\S+)", line)
    if m:
        lo, size = int(m[1], 16), int(m[2], 16)
addresses = "".join(f"{lo + i:#x}\n" for i in range(size))
tool = ["llvm-symbolizer-19", "--output-style=GNU", "--no-demangle", "-a", "-i", "-f", "-e", path]
text = subprocess.run(tool, input=addresses, capture_output=True, text=True).stdout
answers, parts = [], []
for line in text.splitlines() + ["0x0"]:
    if re.fullmatch(r"0x[0-9a-f]+", line):
        if parts:
            answers.append(" < ".join(f"{f} {re.sub(r'[.]/', '', re.sub(r' .discriminator.*', '', p))}" for f, p in zip(parts[::2], parts[1::2])))
        parts = []
    else:
        parts.append(line)
start = 0
for i in range(1, size + 1):
    if i == size or answers[i] != answers[start]:
        print(f"{lo + start:#x}-{lo + i - 1:#x} {answers[start]}")
        start = i
