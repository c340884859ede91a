// comm NAME THREAD: a process and a second thread with these names, in hex.
#include "t.h"

static char name[64], other[64];
static atomic_int there;

static void unhex(char *to, const char *hex) {
	for (; hex[0] && hex[1]; hex += 2) {
		unsigned c;
		NEED(sscanf(hex, "%2x", &c) == 1);
		*to++ = (char)c;
	}
	*to = 0;
}

static void *thread(void *a) {
	(void)a;
	prctl(PR_SET_NAME, other);
	printf("THREAD_TID=%d\n", (int)t_tid());
	atomic_store(&there, 1);
	for (;;) pause();
	return NULL;
}

int main(int argc, char **argv) {
	NEED(argc == 3 && strlen(argv[1]) < 100 && strlen(argv[2]) < 100);
	unhex(name, argv[1]);
	unhex(other, argv[2]);
	t_stdin = 1;
	t_begin(1, argv, "", NULL);
	prctl(PR_SET_NAME, name);
	t_thread("x", -1, thread, NULL);
	while (!atomic_load(&there)) t_sleep_ms(1);
	printf("PPID=%d\n", (int)getppid());
	t_ready();
	t_hold(NULL, NULL, 0);
	return 0;
}
