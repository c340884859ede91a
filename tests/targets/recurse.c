// recurse: threads deep in a recursion of two functions, waiting at the bottom.
#include "t.h"

static struct t_option options[] = {
	{"depth", "calls on the stack of each thread", 40, 1, 20000},
	{"threads", "threads that recurse", 2, 1, 64},
	{NULL, NULL, 0, 0, 0},
};

static atomic_int arrived;
static atomic_uint never; // a futex word that stays 0

__attribute__((noinline)) static long bottom(long n) {
	uint64_t here = 0x0123456789abcdefu;
	printf("THREAD%ld_TID=%d\nTHREAD%ld_LOCAL=0x%016lx\n", n, (int)t_tid(), n, (unsigned long)(uintptr_t)&here);
	atomic_fetch_add(&arrived, 1);
	for (;;) syscall(SYS_futex, &never, 0 /* FUTEX_WAIT */, 0, NULL, NULL, 0);
	return (long)here;
}

static long down_odd(long depth, long n);

__attribute__((noinline)) static long down_even(long depth, long n) {
	volatile long keep = depth; // used after the call, so that the call is no jump
	long r = depth <= 1 ? bottom(n) : down_odd(depth - 1, n);
	return r + keep;
}

__attribute__((noinline)) static long down_odd(long depth, long n) {
	volatile long keep = depth;
	long r = depth <= 1 ? bottom(n) : down_even(depth - 1, n);
	return r + keep;
}

static void *dive(void *arg) { return (void *)down_even(options[0].value, (long)(intptr_t)arg); }

int main(int argc, char **argv) {
	t_begin(argc, argv, "Threads that wait at the bottom of a deep recursion (down_even, down_odd, bottom).", options);
	printf("DEPTH=%ld\nBOTTOM=0x%016lx\nDOWN_EVEN=0x%016lx\nDOWN_ODD=0x%016lx\n", options[0].value,
	       (unsigned long)(uintptr_t)bottom, (unsigned long)(uintptr_t)down_even, (unsigned long)(uintptr_t)down_odd);
	for (long i = 0; i < options[1].value; i++) t_thread("diver", i, dive, (void *)(intptr_t)i);
	while (atomic_load(&arrived) < options[1].value && !t_stopping) t_sleep_ms(5);
	t_ready();
	t_hold(NULL, NULL, 0);
	return 0;
}
