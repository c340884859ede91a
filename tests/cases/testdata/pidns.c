// pidns DEPTH: PID 1 of a PID namespace, DEPTH namespaces deep, with a second
// thread and a child. The outermost process prints the facts.
#include "t.h"
#include <sched.h>

static int sock[2];

static void *thread(void *a) {
	(void)a;
	for (;;) pause();
	return NULL;
}

static void inner(int to) {
	prctl(PR_SET_NAME, "inner");
	t_thread("inner-thread", -1, thread, NULL);
	NEED(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sock));
	pid_t c = t_child();
	if (!c) {
		prctl(PR_SET_NAME, "inner-child");
		close(sock[0]);
		NEED(write(to, "c", 1) == 1);
		for (;;) pause();
	}
	close(sock[1]);
	for (;;) pause();
}

// only child of p, by the kernel
static int child_of(int p) {
	char path[64], b[64];
	snprintf(path, sizeof path, "/proc/%d/task/%d/children", p, p);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, b, sizeof b - 1);
	close(fd);
	b[n > 0 ? n : 0] = 0;
	return atoi(b);
}

int main(int argc, char **argv) {
	NEED(argc == 2);
	int depth = atoi(argv[1]), done[2];
	t_stdin = 1;
	t_begin(1, argv, "", NULL);
	NEED(!pipe2(done, O_CLOEXEC));
	pid_t top = t_child();
	if (!top) {
		for (int i = 0; i < depth; i++) {
			if (unshare(CLONE_NEWPID)) {
				NEED(write(done[1], "n", 1) == 1);
				_exit(0);
			}
			pid_t c = fork();
			NEED(c >= 0);
			if (c)
				for (;;) pause();
			prctl(PR_SET_PDEATHSIG, SIGKILL);
		}
		inner(done[1]);
	}
	char c;
	NEED(read(done[0], &c, 1) == 1);
	if (c == 'n') {
		puts("SKIP=no PID namespace can be made here");
		fflush(stdout);
		return 0;
	}
	int p = top;
	for (int i = 0; i < depth; i++) printf("PARENT_PID=%d\n", p), p = child_of(p);
	printf("INNER_PID=%d\nCHILD_PID=%d\n", p, child_of(p));
	t_ready();
	t_hold(NULL, NULL, 0);
	return 0;
}
