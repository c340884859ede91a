// target MODE [N]: a process in a known condition. It prints facts as KEY=VALUE and
// READY, answers "report" on standard input with facts and DONE, and ends with it.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/io.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <poll.h>
#include <time.h>
#include <unistd.h>

static _Atomic long moves, handled, conts, begun;
static char *self;

static void die(const char *what) {
	perror(what);
	_exit(1);
}

static int tid(void) { return (int)syscall(SYS_gettid); }

static double now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static void pause_for(double s) {
	struct timespec t = {(time_t)s, (long)((s - (time_t)s) * 1e9)};
	while (clock_nanosleep(CLOCK_MONOTONIC, 0, &t, &t) == EINTR) {}
}

static pthread_t start(void *(*f)(void *), void *arg) {
	pthread_t p;
	pthread_attr_t a;
	pthread_attr_init(&a);
	pthread_attr_setstacksize(&a, 256 << 10);
	int e = pthread_create(&p, &a, f, arg);
	if (e) {
		errno = e;
		die("pthread_create");
	}
	pthread_attr_destroy(&a);
	return p;
}

static void ready(void) {
	printf("READY\n");
	fflush(stdout);
}

// serve answers the lines of standard input with what report prints.
static void serve(void (*report)(void)) {
	char line[64];
	ready();
	while (fgets(line, sizeof line, stdin)) {
		if (report) report();
		printf("DONE\n");
		fflush(stdout);
	}
	_exit(0);
}

static void *sleeper(void *p) {
	(void)p;
	begun++;
	for (;;) pause();
	return 0;
}

static void *mover(void *p) {
	(void)p;
	begun++;
	for (;;) {
		moves++;
		pause_for(0.001);
	}
	return 0;
}

static void *spinner(void *p) {
	(void)p;
	begun++;
	for (;;) moves++;
	return 0;
}

// all_begun waits until n threads are where they will stay.
static void all_begun(int n) {
	while (begun < n) pause_for(0.0005);
	pause_for(0.002);
}

static void on_cont(int s) {
	(void)s;
	conts++;
}

static void report_moves(void) { printf("MOVES=%ld\nCONTS=%ld\n", moves, conts); }

// threads N: one that moves, the others sleep.
static void threads(int n) {
	signal(SIGCONT, on_cont);
	start(mover, 0);
	for (int i = 2; i < n; i++) start(sleeper, 0);
	all_begun(n - 1);
	serve(report_moves);
}

// spin N: all but the main thread spin.
static void spin(int n) {
	for (int i = 1; i < n; i++) start(spinner, 0);
	all_begun(n - 1);
	serve(report_moves);
}

// signals: counts real-time signals, which are queued and never merged.
static void on_rt(int s) {
	(void)s;
	handled++;
}
static void report_handled(void) { printf("HANDLED=%ld\n", handled); }
static void signals(int n) {
	struct sigaction a = {.sa_handler = on_rt, .sa_flags = SA_RESTART};
	for (int s = SIGRTMIN; s <= SIGRTMIN + 3; s++) sigaction(s, &a, 0);
	for (int i = 0; i < n; i++) start(i % 2 ? mover : sleeper, 0);
	serve(report_handled);
}

// eintr: each call in a thread of its own.
struct watch {
	const char *name;
	int (*call)(void);
	double least; // the call may not end earlier, in seconds; 0 when something wakes it
	_Atomic long calls, eintr, early, other;
};
static int pipe_fd[2], pair[2], listen_fd, epoll_fd, timeout_pair[2], sem;
static _Atomic int word;
static int c_nanosleep(void) {
	struct timespec t = {0, 150000000};
	return nanosleep(&t, 0);
}
static int c_clock(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	t.tv_nsec += 150000000;
	if (t.tv_nsec >= 1000000000) {
		t.tv_sec++;
		t.tv_nsec -= 1000000000;
	}
	int e = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, 0);
	errno = e;
	return e ? -1 : 0;
}
static int c_read(void) {
	char c;
	return read(pipe_fd[0], &c, 1) == 1 ? 0 : -1;
}
static int c_futex(void) {
	struct timespec t = {0, 150000000};
	int r = syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &t, 0, 0);
	return r == -1 && errno == ETIMEDOUT ? 0 : r ? -1 : 0;
}
static int c_poll(void) { return poll(0, 0, 150); }
static int c_select(void) {
	struct timeval t = {0, 150000};
	return select(0, 0, 0, 0, &t);
}
static int c_recv(void) {
	char c;
	return recv(pair[0], &c, 1, 0) == 1 ? 0 : -1;
}
static int c_accept(void) {
	int fd = accept(listen_fd, 0, 0);
	if (fd >= 0) close(fd);
	return fd >= 0 ? 0 : -1;
}
static int c_epoll(void) {
	struct epoll_event e;
	return epoll_wait(epoll_fd, &e, 1, 150);
}
static int c_sigtimedwait(void) {
	sigset_t s;
	sigemptyset(&s);
	sigaddset(&s, SIGUSR2);
	struct timespec t = {0, 150000000};
	return sigtimedwait(&s, 0, &t) == -1 && errno == EAGAIN ? 0 : -1;
}
static int c_recv_timeout(void) {
	char c;
	return recv(timeout_pair[0], &c, 1, 0) == -1 && errno == EAGAIN ? 0 : -1;
}
static int c_semtimedop(void) {
	struct sembuf b = {0, -1, 0};
	struct timespec t = {0, 150000000};
	return semtimedop(sem, &b, 1, &t) == -1 && errno == EAGAIN ? 0 : -1;
}
static struct watch watches[] = {
	{"NANOSLEEP", c_nanosleep, 0.15, 0, 0, 0, 0}, {"CLOCK_NANOSLEEP", c_clock, 0.15, 0, 0, 0, 0},
	{"READ", c_read, 0, 0, 0, 0, 0}, {"FUTEX", c_futex, 0.15, 0, 0, 0, 0}, {"POLL", c_poll, 0.15, 0, 0, 0, 0},
	{"SELECT", c_select, 0.15, 0, 0, 0, 0}, {"RECV", c_recv, 0, 0, 0, 0, 0}, {"ACCEPT", c_accept, 0, 0, 0, 0, 0},
	{"EPOLL_WAIT", c_epoll, 0.15, 0, 0, 0, 0}, {"SIGTIMEDWAIT", c_sigtimedwait, 0.15, 0, 0, 0, 0},
	{"RECV_TIMEOUT", c_recv_timeout, 0.15, 0, 0, 0, 0}, {"SEMTIMEDOP", c_semtimedop, 0.15, 0, 0, 0, 0},
};
enum { NWATCH = sizeof watches / sizeof *watches };
static void *watcher(void *p) {
	struct watch *w = p;
	for (;;) {
		double from = now();
		errno = 0;
		int r = w->call();
		if (r == -1 && errno == EINTR) w->eintr++;
		else if (r != 0) w->other++;
		else if (now() - from < w->least - 0.002) w->early++;
		w->calls++;
	}
	return 0;
}
static struct sockaddr_storage address;
static socklen_t address_size;
static void *feeder(void *p) {
	(void)p;
	for (;;) {
		pause_for(0.1);
		if (write(pipe_fd[1], "x", 1) != 1 || send(pair[1], "x", 1, 0) != 1) die("feed");
		int fd = socket(AF_UNIX, SOCK_STREAM, 0);
		if (connect(fd, (void *)&address, address_size)) die("connect");
		close(fd);
	}
	return 0;
}
static void report_watches(void) {
	for (int i = 0; i < NWATCH; i++) {
		struct watch *w = &watches[i];
		printf("%s_CALLS=%ld\n%s_EINTR=%ld\n%s_EARLY=%ld\n%s_OTHER=%ld\n", w->name, w->calls, w->name, w->eintr, w->name, w->early, w->name, w->other);
	}
}
static void eintr(void) {
	struct timeval t = {0, 150000};
	if (pipe(pipe_fd) || socketpair(AF_UNIX, SOCK_STREAM, 0, pair) || socketpair(AF_UNIX, SOCK_STREAM, 0, timeout_pair)) die("pair");
	setsockopt(timeout_pair[0], SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t);
	epoll_fd = epoll_create1(0);
	sem = semget(IPC_PRIVATE, 1, 0600);
	listen_fd = socket(AF_UNIX, SOCK_STREAM, 0);
	sa_family_t family = AF_UNIX;
	if (bind(listen_fd, (void *)&family, sizeof family) || listen(listen_fd, 8)) die("listen"); // autobind: an abstract name
	address_size = sizeof address;
	getsockname(listen_fd, (void *)&address, &address_size);
	sigset_t s;
	sigemptyset(&s);
	sigaddset(&s, SIGUSR2);
	pthread_sigmask(SIG_BLOCK, &s, 0);
	for (int i = 0; i < NWATCH; i++) start(watcher, &watches[i]);
	start(feeder, 0);
	char line[64];
	ready();
	while (fgets(line, sizeof line, stdin)) {
		report_watches();
		printf("DONE\n");
		fflush(stdout);
	}
	semctl(sem, 0, IPC_RMID);
	_exit(0);
}

// execs N [ROUND]: N threads; after 0.5 ms this program is started again, in turn
// by the main thread and by another one.
static int execs_threads, execs_round;
static void *execer(void *p) {
	pause_for(0.0005);
	char n[16], round[16];
	snprintf(n, sizeof n, "%d", execs_threads);
	snprintf(round, sizeof round, "%d", execs_round + 1);
	execl("/proc/self/exe", self, "execs", n, round, (char *)0);
	die("exec");
	return p;
}
static void execs(int n, int round) {
	execs_threads = n;
	execs_round = round;
	if (!round) ready();
	for (int i = 0; i < n; i++) start(sleeper, 0);
	if (round % 2) execer(0);
	start(execer, 0);
	for (;;) pause();
}

// clones N: N threads that each create a thread and join it, for ever.
static void *nothing(void *p) { return p; }
static void *creator(void *p) {
	(void)p;
	for (;;) {
		pthread_join(start(nothing, 0), 0);
		moves++;
	}
	return 0;
}
static void clones(int n) {
	for (int i = 0; i < n; i++) start(creator, 0);
	serve(report_moves);
}

// chain: a thread creates the next one and ends.
static void *link_of_chain(void *p) {
	(void)p;
	moves++;
	pthread_detach(start(link_of_chain, 0));
	return 0;
}
static void chain(int n) {
	for (int i = 0; i < n; i++) pthread_detach(start(link_of_chain, 0));
	serve(report_moves);
}

// exits N: N threads that live for a moment; processes of it are started anew by a
// parent that stays, and end by exit_group in the middle.
static void *moment(void *p) {
	(void)p;
	pause_for(0.0002);
	return 0;
}
static void exits(int n) {
	for (int round = 0;; round++) {
		for (int i = 0; i < n; i++) pthread_detach(start(moment, 0));
		moves++;
		pause_for(0.0005);
		if (round == 3) _exit(0);
	}
}

// vfork: a thread waits in vfork until the child gets a line.
static int release_pipe[2];
static _Atomic int stuck_tid, child_pid;
static void *vforker(void *p) {
	(void)p;
	stuck_tid = tid();
	if (vfork() == 0) {
		child_pid = getpid();
		close(release_pipe[1]); // so that it ends with its parent
		char c;
		(void)!read(release_pipe[0], &c, 1);
		_exit(0);
	}
	stuck_tid = 0;
	for (;;) pause();
}
static void report_vfork(void) {
	if (stuck_tid) {
		if (write(release_pipe[1], "x", 1) != 1) die("release");
		while (stuck_tid) pause_for(0.001);
	}
	printf("CHILD_GONE=%d\n", stuck_tid == 0);
}
static void vforked(void) {
	if (pipe(release_pipe)) die("pipe");
	start(mover, 0);
	start(vforker, 0);
	while (!child_pid) pause_for(0.001);
	pause_for(0.01);
	printf("STUCK_TID=%d\nCHILD=%d\n", stuck_tid, child_pid);
	serve(report_vfork);
}

// leaderless: the main thread has ended.
static void *heir(void *p) {
	(void)p;
	char path[64], text[64] = "";
	snprintf(path, sizeof path, "/proc/%d/stat", getpid());
	do {
		pause_for(0.001);
		int fd = open(path, O_RDONLY);
		ssize_t n = read(fd, text, sizeof text - 1);
		close(fd);
		if (n > 0) text[n] = 0;
	} while (!strstr(text, ") Z"));
	printf("HEIR=%d\n", tid());
	serve(report_moves);
	return 0;
}

// strict: seccomp leaves it read, write and exit.
static void strict(void) {
	ready();
	prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
	char c;
	while (read(0, &c, 1) == 1) {}
	syscall(SYS_exit, 0);
}

// altstack: two threads, the main one too, wait in a handler on a stack of its own.
static _Atomic int waiting;
static void on_fault(int s) {
	(void)s;
	waiting++;
	for (;;) pause();
}
static __attribute__((noipa)) void faulty(volatile int *p) {
	*p = 1;
	moves++;
}
static __attribute__((noipa)) void below(volatile int *p) {
	faulty(p);
	moves++;
}
static void *alternate(void *p) {
	static _Atomic int taken;
	enum { SIZE = 64 << 10 };
	// One stack in the heap, one in a mapping of its own.
	stack_t ss = {.ss_size = SIZE};
	ss.ss_sp = taken++ ? malloc(SIZE) : mmap(0, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	sigaltstack(&ss, 0);
	below(0);
	return p;
}
static void *alternate_server(void *p) {
	while (waiting < 2) pause_for(0.001);
	ready();
	return p;
}
static void altstack(void) {
	struct sigaction a = {.sa_handler = on_fault, .sa_flags = SA_ONSTACK};
	sigaction(SIGSEGV, &a, 0);
	pthread_t p = start(alternate_server, 0);
	pthread_detach(p);
	start(alternate, 0);
	alternate(0);
}

// foreign: clones processes without an exit signal, which TRACECLONE attaches too.
static int child_of_clone(void *p) {
	(void)p;
	return 0;
}
static void *cloner(void *p) {
	(void)p;
	char *stack = mmap(0, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (;;) {
		int pid = clone(child_of_clone, stack + 65536, 0, 0);
		if (pid < 0) die("clone");
		if (waitpid(pid, 0, __WALL) != pid) die("waitpid");
		moves++;
	}
	return 0;
}
static void foreign(int n) {
	for (int i = 0; i < n; i++) start(cloner, 0);
	serve(report_moves);
}

// forks N: N threads that each fork a child and take its exit status, for ever.
static void *forker(void *p) {
	(void)p;
	for (;;) {
		pid_t pid = fork();
		if (pid == 0) _exit(7);
		int status = 0;
		if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status) || WEXITSTATUS(status) != 7) die("child");
		moves++;
	}
	return 0;
}
static void forks(int n) {
	for (int i = 0; i < n; i++) start(forker, 0);
	serve(report_moves);
}

int main(int argc, char **argv) {
	const char *mode = argc > 1 ? argv[1] : "";
	int n = argc > 2 ? atoi(argv[2]) : 1;
	self = argv[0];
	alarm(900); // no PR_SET_PDEATHSIG: it comes when the thread ends that started us
	if (!strcmp(mode, "threads")) threads(n);
	if (!strcmp(mode, "spin")) spin(n);
	if (!strcmp(mode, "signals")) signals(n);
	if (!strcmp(mode, "eintr")) eintr();
	if (!strcmp(mode, "execs")) execs(n, argc > 3 ? atoi(argv[3]) : 0);
	if (!strcmp(mode, "clones")) clones(n);
	if (!strcmp(mode, "chain")) chain(n);
	if (!strcmp(mode, "exits")) {
		ready();
		exits(n);
	}
	if (!strcmp(mode, "vfork")) vforked();
	if (!strcmp(mode, "leaderless")) {
		start(mover, 0);
		start(heir, 0);
		pthread_exit(0);
	}
	if (!strcmp(mode, "strict")) strict();
	if (!strcmp(mode, "nodump")) {
		prctl(PR_SET_DUMPABLE, 0);
		threads(n);
	}
	if (!strcmp(mode, "altstack")) altstack();
	if (!strcmp(mode, "forks")) forks(n);
	if (!strcmp(mode, "foreign")) foreign(n);
	fprintf(stderr, "unknown mode %s\n", mode);
	return 2;
}
