// vfork: one thread waits in vfork for its child, which nothing but that child's
// end can stop; the main thread is an ordinary one. "release" ends the child.
#include "t.h"

static volatile pid_t child; // written by the child, in the memory that it shares

static void *stuck(void *arg) {
	(void)arg;
	printf("STUCK_TID=%d\n", (int)t_tid());
	pid_t p = vfork();
	if (p == 0) {
		child = (pid_t)syscall(SYS_getpid);
		syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL);
		for (;;) syscall(SYS_pause);
	}
	NEED(p > 0 && waitpid(p, NULL, 0) == p);
	for (;;) pause();
	return NULL;
}

static void on_line(char *line) {
	if (!strcmp(line, "release")) NEED(!kill(child, SIGKILL));
	puts("DONE=1");
}

int main(int argc, char **argv) {
	t_begin(argc, argv, "A thread that waits in vfork.", NULL);
	t_thread("in-vfork", -1, stuck, NULL);
	while (!child) t_sleep_ms(5);
	t_sleep_ms(20);
	printf("NORMAL_TID=%d\nCHILD_PID=%d\n", (int)t_tid(), (int)child);
	t_ready();
	t_hold(on_line, NULL, 0);
	kill(child, SIGKILL);
	return 0;
}
