// blocked.h: a thread that runs blocked_run, which is to wait in pause(2), beside
// a main thread that waits to be stopped.
#include "t.h"

static atomic_int blocked_begun;

__attribute__((noinline)) long blocked_run(void);

static void *blocked_thread(void *arg) {
	(void)arg;
	printf("TID=%d\n", (int)t_tid());
	atomic_store(&blocked_begun, 1);
	return (void *)blocked_run();
}

static int blocked_main(int argc, char **argv, const char *what) {
	t_begin(argc, argv, what, NULL);
	t_thread("blocked", -1, blocked_thread, NULL);
	while (!atomic_load(&blocked_begun)) t_sleep_ms(5);
	t_ready();
	t_hold(NULL, NULL, 0);
	return 0;
}
