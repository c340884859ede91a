// target MODE N FILE: N threads, of which one (idle) or all (spin) watch their own
// clock. FILE is shared: the longest time in which no watching thread ran stands
// there, in ns, until someone sets it to 0.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

struct shared {
	_Atomic uint64_t gap;   // the longest, ns
	_Atomic uint64_t last;  // CLOCK_MONOTONIC when a watching thread was last seen to run
	_Atomic uint64_t ready; // threads that have come to their place
};
static struct shared *S;
static int spin;
static volatile int over; // never

static inline uint64_t now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static void watch(void) {
	for (;;) {
		uint64_t t = now(), last = atomic_load_explicit(&S->last, memory_order_relaxed);
		if (t <= last) continue;
		if (!atomic_compare_exchange_strong(&S->last, &last, t)) continue;
		uint64_t gap = t - last, most = S->gap;
		while (gap > most && !atomic_compare_exchange_weak(&S->gap, &most, gap)) {}
	}
}

// place goes 20 calls deep, as real threads wait somewhere deep.
static __attribute__((noipa)) void place(int depth, int watching) {
	volatile char locals[1500];
	memset((void *)locals, depth, sizeof locals);
	if (depth) {
		place(depth - 1, watching);
	} else {
		S->ready++;
		if (watching) watch();
		while (!over) pause();
	}
	locals[0] = locals[1];
}

static void *thread(void *p) {
	place(20, spin);
	return p;
}

int main(int argc, char **argv) {
	if (argc != 4) return 2;
	spin = !strcmp(argv[1], "spin");
	int n = atoi(argv[2]), fd = open(argv[3], O_RDWR);
	if (fd < 0 || (S = mmap(0, sizeof *S, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)) == MAP_FAILED) {
		perror(argv[3]);
		return 1;
	}
	S->last = now();
	pthread_attr_t a;
	pthread_attr_init(&a);
	pthread_attr_setstacksize(&a, 1 << 20);
	for (int i = 1; i < n; i++) {
		pthread_t p;
		if (pthread_create(&p, &a, thread, 0)) {
			fprintf(stderr, "target: cannot create thread %d\n", i);
			return 1;
		}
	}
	place(20, 1);
}
