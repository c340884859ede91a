// load.c: one kind of operation, many times: load KIND COUNT [CPU].
// Prints the CPU time of an operation in nanoseconds, of this process and its child.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NEED(e)                                                                          \
	do {                                                                                 \
		if (!(e)) {                                                                      \
			fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #e, strerror(errno)); \
			exit(1);                                                                     \
		}                                                                                \
	} while (0)

static char b[4096];
static long count;

static double used(void) {
	struct timespec t;
	NEED(!clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t));
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void getppids(void) {
	for (long i = 0; i < count; i++) syscall(SYS_getppid);
}

static void zeros(void) {
	int fd = open("/dev/zero", O_RDONLY);
	for (long i = 0; i < count; i++) NEED(read(fd, b, 1) == 1);
}

static void pipes(void) {
	int p[2];
	NEED(!pipe(p));
	for (long i = 0; i < count; i++) NEED(write(p[1], b, 1) == 1 && read(p[0], b, 1) == 1);
}

static void sockets(void) {
	int s[2];
	NEED(!socketpair(AF_UNIX, SOCK_STREAM, 0, s));
	for (long i = 0; i < count; i++) NEED(send(s[1], b, 1, 0) == 1 && recv(s[0], b, 1, 0) == 1);
}

static void yields(void) {
	for (long i = 0; i < count; i++) sched_yield();
}

int main(int argc, char **argv) {
	static const struct {
		const char *name;
		void (*f)(void);
		int two;
	} kinds[] = {{"getppid", getppids, 0}, {"read", zeros, 0}, {"pipe", pipes, 0}, {"socket", sockets, 0}, {"yield", yields, 1}};
	size_t k = 0, n = sizeof kinds / sizeof *kinds;
	while (k < n && (argc < 3 || strcmp(argv[1], kinds[k].name))) k++;
	if (k == n) {
		fputs("usage: load getppid|read|pipe|socket|yield COUNT [CPU]\n", stderr);
		return 2;
	}
	count = atol(argv[2]);
	cpu_set_t cpu;
	CPU_ZERO(&cpu);
	CPU_SET(argc > 3 ? atoi(argv[3]) : 0, &cpu);
	NEED(!sched_setaffinity(0, sizeof cpu, &cpu)); // two that yield must meet
	double before = used(), child = 0;
	if (kinds[k].two) {
		int report[2];
		NEED(!pipe(report));
		pid_t pid = fork();
		NEED(pid >= 0);
		if (!pid) {
			double from = used();
			kinds[k].f();
			double took = used() - from;
			NEED(write(report[1], &took, sizeof took) == sizeof took);
			_exit(0);
		}
		kinds[k].f();
		double took = used() - before;
		NEED(read(report[0], &child, sizeof child) == sizeof child && waitpid(pid, NULL, 0) == pid);
		printf("%.2f\n", (took + child) / (double)count);
		return 0;
	}
	kinds[k].f();
	printf("%.2f\n", (used() - before) / (double)count);
	return 0;
}
