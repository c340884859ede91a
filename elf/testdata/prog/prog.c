// The program behind the files in this folder; see make.sh.
typedef unsigned long word;

__attribute__((noinline)) static word inner(word n) { return n * 3 + 1; }
__attribute__((noinline)) word outer(word n) { return inner(n) ^ n; }
__attribute__((noinline, weak)) word weak_name(word n) { return outer(n) + 1; }
extern word other_name(word n) __attribute__((alias("weak_name")));
extern word __reserved_name(word n) __attribute__((alias("weak_name")));
word table[4] = {1, 2, 3, 4};

__asm__(".text\n.globl bare\nbare:\n nop\n nop\n nop\n ret\n");
extern void bare(void);

void _start(void) {
    bare();
    table[0] = weak_name(table[1]);
    for (;;) {
    }
}
