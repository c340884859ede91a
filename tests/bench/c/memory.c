// memory PID ADDRESS COUNT LOOPS: the limit for reading memory: COUNT reads of
// 64 KiB one after the other, from ADDRESS on.
#include "util.h"

static int pid;
static uint64_t address;
static long count, n;
static char *b;

static void run(void) {
	n = 0;
	for (long i = 0; i < count; i++) {
		struct iovec l = {b, 65536}, r = {(void *)(address + (uint64_t)i * 65536), 65536};
		long k = process_vm_readv(pid, &l, 1, &r, 1, 0);
		if (k != 65536) { perror("process_vm_readv"); exit(1); }
		n += k;
	}
}

int main(int argc, char **argv) {
	if (argc != 5) return 2;
	pid = atoi(argv[1]);
	address = strtoull(argv[2], NULL, 0);
	count = atol(argv[3]);
	b = aligned_alloc(4096, 65536);
	memset(b, 0, 65536);
	job(run, atoi(argv[4]), 0, &n, NULL);
	return 0;
}
