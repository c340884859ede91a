// threads: threads that come and go.
#include "t.h"

static struct t_option options[] = {
	{"steady", "threads that stay", 4, 0, 1024},
	{"rate", "threads started a second", 50, 1, 5000},
	{"life-ms", "how long each of those lives", 200, 0, 60000},
	{NULL, NULL, 0, 0, 0},
};

static atomic_long started, ended;

static void *stays(void *a) {
	(void)a;
	for (;;) pause();
	return NULL;
}

static void *passes(void *a) {
	(void)a;
	if (options[2].value) t_sleep_ms(options[2].value);
	atomic_fetch_add(&ended, 1);
	return NULL;
}

static double owed;

static void tick(void) {
	for (owed += (double)options[1].value / 50; owed >= 1; owed--) {
		if (atomic_load(&started) - atomic_load(&ended) > 4096) return;
		pthread_detach(t_thread("passing", atomic_fetch_add(&started, 1), passes, NULL));
	}
}

static void line(char *s) {
	if (!strcmp(s, "report")) printf("STARTED=%ld\nENDED=%ld\nDONE=1\n", atomic_load(&started), atomic_load(&ended));
}

int main(int argc, char **argv) {
	t_begin(argc, argv, "Threads that come and go. The line \"report\" on standard input prints how many so far.", options);
	for (long i = 0; i < options[0].value; i++) t_thread("steady", i, stays, NULL);
	printf("STEADY=%ld\nRATE=%ld\nLIFE_MS=%ld\n", options[0].value, options[1].value, options[2].value);
	t_ready();
	t_hold(line, tick, 20);
	return 0;
}
