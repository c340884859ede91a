// A 32-bit program without a library: it sleeps down a chain of frame pointers.
static void sys_pause(void) { asm volatile("int $0x80" ::"a"(29) : "memory"); }

static int sys_write(int fd, const char *b, int n) {
	int r;
	asm volatile("int $0x80" : "=a"(r) : "a"(4), "b"(fd), "c"(b), "d"(n) : "memory");
	return r;
}

__attribute__((noinline)) void inner(void) {
	sys_write(1, "READY\n", 6);
	for (;;)
		sys_pause();
}

__attribute__((noinline)) void outer(void) {
	inner();
	asm volatile("");
}

void _start(void) {
	outer();
	for (;;)
		;
}
