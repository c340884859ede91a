// compute: threads that use a known share of a core each.
#include "t.h"

static struct t_option options[] = {
	{"threads", "how many threads compute", 2, 1, 256},
	{"percent", "how much of a core each of them takes", 30, 1, 100},
	{NULL, NULL, 0, 0, 0},
};

static volatile uint64_t sink;

static uint64_t churn(uint64_t x, double until) {
	while (t_now() < until)
		for (int i = 0; i < 2000; i++) x = x * 6364136223846793005u + 1442695040888963407u;
	return x;
}

static void *work(void *arg) {
	long n = (long)(intptr_t)arg, percent = options[1].value;
	printf("WORKER%ld_TID=%d\n", n, (int)t_tid());
	uint64_t x = (uint64_t)n;
	for (;;) {
		double start = t_now();
		x = churn(x, start + 0.001 * (double)percent);
		sink = x;
		if (percent < 100) t_sleep_ms(100 - percent);
	}
	return NULL;
}

int main(int argc, char **argv) {
	t_begin(argc, argv, "Threads that compute: each keeps a core busy for a part of every tenth of a second.", options);
	printf("THREADS=%ld\nPERCENT=%ld\n", options[0].value, options[1].value);
	for (long i = 0; i < options[0].value; i++) t_thread("compute", i, work, (void *)(intptr_t)i);
	t_sleep_ms(50);
	t_ready();
	t_hold(NULL, NULL, 0);
	return 0;
}
