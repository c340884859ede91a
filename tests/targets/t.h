// t.h: what every target shares. A target takes options, prints PID= and its
// facts as KEY=VALUE lines, then READY=1, and runs until it is stopped.
#ifndef T_H
#define T_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NEED(e)                                                                     \
	do {                                                                            \
		if (!(e)) {                                                                 \
			fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #e, strerror(errno)); \
			exit(1);                                                                \
		}                                                                           \
	} while (0)

// One option that takes a number; a table of them ends with a NULL name.
struct t_option {
	const char *name, *help;
	long value; // the default, then what was given
	long min, max;
};

static int t_stdin;                      // --stdin: end of standard input stops the target
static volatile sig_atomic_t t_stopping; // a stop signal has arrived
static sigset_t t_open;                  // the signal mask as it was: what ppoll waits with

static void t_on_stop(int sig) {
	(void)sig;
	t_stopping = 1;
}

static void t_usage(FILE *to, const char *name, const char *what, const struct t_option *o) {
	fprintf(to, "usage: %s [options]\n\n%s\n\noptions:\n", name, what);
	for (; o && o->name; o++) fprintf(to, "  --%-16s %s (%ld; %ld to %ld)\n", o->name, o->help, o->value, o->min, o->max);
	fputs("  --allow-inspector  let any process of this user look into this program (PR_SET_PTRACER_ANY)\n"
	      "  --stdin            stop at the end of standard input too\n"
	      "  --help             this text\n\nIt runs until SIGTERM or SIGINT.\n", to);
}

// t_begin reads the options, blocks the stop signals for every thread that
// follows and prints PID=.
__attribute__((unused)) static void t_begin(int argc, char **argv, const char *what, struct t_option *options) {
	const char *name = strrchr(argv[0], '/') ? strrchr(argv[0], '/') + 1 : argv[0];
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--help")) {
			t_usage(stdout, name, what, options);
			exit(0);
		}
		if (!strcmp(argv[i], "--stdin")) {
			t_stdin = 1;
			continue;
		}
		if (!strcmp(argv[i], "--allow-inspector")) {
			// EINVAL: this kernel has no Yama, and everyone of this user may look anyway.
			NEED(!prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY) || errno == EINVAL);
			continue;
		}
		struct t_option *o = options;
		while (o && o->name && (strncmp(argv[i], "--", 2) || strcmp(argv[i] + 2, o->name))) o++;
		char *end = NULL;
		long v = o && o->name && i + 1 < argc ? strtol(argv[i + 1], &end, 10) : 0;
		if (!end || end == argv[i + 1] || *end || v < o->min || v > o->max) {
			fprintf(stderr, "%s: bad option or value: %s\n", name, argv[i]);
			t_usage(stderr, name, what, options);
			exit(2);
		}
		o->value = v;
		i++;
	}
	sigset_t stop;
	sigemptyset(&stop);
	sigaddset(&stop, SIGTERM);
	sigaddset(&stop, SIGINT);
	sigaddset(&stop, SIGHUP);
	NEED(!sigprocmask(SIG_BLOCK, &stop, &t_open));
	sigdelset(&t_open, SIGTERM);
	sigdelset(&t_open, SIGINT);
	sigdelset(&t_open, SIGHUP);
	struct sigaction sa = {.sa_handler = t_on_stop};
	NEED(!sigaction(SIGTERM, &sa, NULL) && !sigaction(SIGINT, &sa, NULL) && !sigaction(SIGHUP, &sa, NULL));
	signal(SIGPIPE, SIG_IGN);
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("PID=%d\n", (int)getpid());
}

static pid_t t_children[64]; // made by t_child, as far as they are few
static int t_nchildren;

// t_ready says that all is as the facts tell: every child sleeps by then, so it has
// closed what it does not keep.
__attribute__((unused)) static void t_ready(void) {
	for (int i = 0; i < t_nchildren; i++) {
		char path[64], b[512], *state;
		snprintf(path, sizeof path, "/proc/%d/stat", (int)t_children[i]);
		for (;; usleep(1000)) {
			int fd = open(path, O_RDONLY | O_CLOEXEC);
			ssize_t n = fd < 0 ? 0 : read(fd, b, sizeof b - 1);
			if (fd >= 0) close(fd);
			b[n > 0 ? n : 0] = 0;
			if (!(state = strrchr(b, ')')) || state[2] != 'R') break;
		}
	}
	puts("READY=1");
	fflush(stdout);
}

__attribute__((unused)) static double t_now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

__attribute__((unused)) static void t_sleep_ms(long ms) {
	struct timespec t = {ms / 1000, ms % 1000 * 1000000};
	nanosleep(&t, NULL);
}

__attribute__((unused)) static pid_t t_tid(void) { return (pid_t)syscall(SYS_gettid); }

__attribute__((unused)) static unsigned long t_inode(int fd) {
	struct stat s;
	NEED(!fstat(fd, &s));
	return (unsigned long)s.st_ino;
}

// t_temp makes a private directory; the caller removes what it puts there.
__attribute__((unused)) static char *t_temp(char *buf, size_t cap) {
	const char *base = getenv("TMPDIR");
	NEED((size_t)snprintf(buf, cap, "%s/procinsh-target-XXXXXX", base && *base ? base : "/tmp") < cap);
	NEED(mkdtemp(buf));
	return buf;
}

// t_thread starts a thread called name, or name-n when n is not negative; the
// kernel keeps 15 bytes of it.
struct t_start {
	void *(*run)(void *);
	void *arg;
	char name[64];
};

static void *t_named(void *p) {
	struct t_start s = *(struct t_start *)p;
	free(p);
	prctl(PR_SET_NAME, s.name);
	return s.run(s.arg);
}

__attribute__((unused)) static pthread_t t_thread(const char *name, long n, void *(*run)(void *), void *arg) {
	struct t_start *s = calloc(1, sizeof *s);
	NEED(s);
	s->run = run;
	s->arg = arg;
	if (n < 0) snprintf(s->name, sizeof s->name, "%.32s", name);
	else snprintf(s->name, sizeof s->name, "%.32s-%ld", name, n);
	pthread_t t;
	errno = pthread_create(&t, NULL, t_named, s);
	NEED(!errno);
	return t;
}

// t_child forks; the child dies with this process and keeps the stop signals'
// default action.
__attribute__((unused)) static pid_t t_child(void) {
	fflush(stdout);
	pid_t parent = getpid(), p = fork();
	NEED(p >= 0);
	if (p) {
		if (t_nchildren < (int)(sizeof t_children / sizeof *t_children)) t_children[t_nchildren++] = p;
		return p;
	}
	t_nchildren = 0;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent) _exit(1);
	signal(SIGTERM, SIG_DFL);
	signal(SIGINT, SIG_DFL);
	signal(SIGHUP, SIG_DFL);
	sigprocmask(SIG_SETMASK, &t_open, NULL);
	return 0;
}

// t_hold waits until the target is stopped. Meanwhile it calls on_line for each
// line of standard input (without its end) and on_tick every tick_ms; either may
// be NULL. Without on_line and --stdin the standard input is not looked at.
__attribute__((unused)) static void t_hold(void (*on_line)(char *), void (*on_tick)(void), long tick_ms) {
	char line[4096];
	size_t have = 0;
	int look = on_line || t_stdin;
	double due = t_now() + (double)tick_ms / 1e3;
	while (!t_stopping) {
		struct timespec wait = {0, 0};
		if (on_tick) {
			double left = due - t_now();
			if (left > 0) wait = (struct timespec){(time_t)left, (long)((left - (double)(time_t)left) * 1e9)};
		}
		struct pollfd p = {.fd = look ? 0 : -1, .events = POLLIN};
		int n = ppoll(&p, 1, on_tick ? &wait : NULL, &t_open);
		if (n < 0 && errno != EINTR) NEED(!"ppoll");
		if (on_tick && t_now() >= due) {
			on_tick();
			due += (double)tick_ms / 1e3;
			if (due < t_now()) due = t_now();
		}
		if (n <= 0 || !p.revents) continue;
		ssize_t got = read(0, line + have, sizeof line - 1 - have);
		if (got <= 0) { // the end of it
			if (t_stdin) return;
			look = 0;
			continue;
		}
		have += (size_t)got;
		char *nl;
		while ((nl = memchr(line, '\n', have))) {
			*nl = 0;
			if (on_line) on_line(line);
			have -= (size_t)(nl + 1 - line);
			memmove(line, nl + 1, have);
		}
		if (have == sizeof line - 1) have = 0; // no line is that long
	}
}
#endif
