// groupstop: three threads, one of which counts; how often SIGCONT was handled.
#include "t.h"

static atomic_long counted, continued;

static void on_cont(int sig) {
	(void)sig;
	atomic_fetch_add(&continued, 1);
}

static void *count(void *arg) {
	for (;;) {
		atomic_fetch_add(&counted, 1);
		t_sleep_ms(1);
	}
	return arg;
}

static void *wait_for_ever(void *arg) {
	for (;;) pause();
	return arg;
}

static void on_line(char *line) {
	(void)line;
	printf("COUNTED=%ld\nCONTINUED=%ld\nDONE=1\n", atomic_load(&counted), atomic_load(&continued));
}

int main(int argc, char **argv) {
	t_begin(argc, argv, "Threads to be stopped and continued.", NULL);
	struct sigaction sa = {.sa_handler = on_cont, .sa_flags = SA_RESTART};
	NEED(!sigaction(SIGCONT, &sa, NULL));
	t_thread("count", -1, count, NULL);
	t_thread("wait", -1, wait_for_ever, NULL);
	t_ready();
	t_hold(on_line, NULL, 0);
	return 0;
}
