// eintr: a thread in each of the waits that the kernel restarts by itself, and one
// in epoll_wait, which it does not. "report" prints what they returned.
#include "t.h"
#include <sys/epoll.h>
#include <sys/select.h>

enum { WAIT_MS = 150 };

struct waiter {
	const char *name;
	long (*wait)(void);
	int timed; // it ends by its timeout
	atomic_long calls, interrupted, early, other;
};

static int empty[2], fed[2], pair[2], poller;
static unsigned never; // a futex word that stays 0

static const struct timespec nap = {0, WAIT_MS * 1000000};
static long w_nanosleep(void) { return nanosleep(&nap, NULL); }
static long w_clock_nanosleep(void) {
	errno = clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, NULL);
	return errno ? -1 : 0;
}
static long w_futex(void) { return syscall(SYS_futex, &never, 0, 0, &nap, NULL, 0) < 0 && errno == ETIMEDOUT ? 0 : -1; }
static long w_poll(void) { return poll(&(struct pollfd){empty[0], POLLIN, 0}, 1, WAIT_MS); }
static long w_select(void) {
	struct timeval t = {0, WAIT_MS * 1000};
	fd_set s;
	FD_ZERO(&s);
	FD_SET(empty[0], &s);
	return select(empty[0] + 1, &s, NULL, NULL, &t);
}
static long w_epoll_wait(void) { return epoll_wait(poller, &(struct epoll_event){0}, 1, WAIT_MS); }
static long w_read(void) {
	char c;
	return read(fed[0], &c, 1) - 1;
}
static long w_recv(void) {
	char c;
	return recv(pair[0], &c, 1, 0) - 1;
}

static struct waiter waiters[] = {
	{.name = "NANOSLEEP", .wait = w_nanosleep, .timed = 1}, {.name = "CLOCK_NANOSLEEP", .wait = w_clock_nanosleep, .timed = 1},
	{.name = "FUTEX", .wait = w_futex, .timed = 1},         {.name = "POLL", .wait = w_poll, .timed = 1},
	{.name = "SELECT", .wait = w_select, .timed = 1},       {.name = "EPOLL_WAIT", .wait = w_epoll_wait, .timed = 1},
	{.name = "READ", .wait = w_read},                       {.name = "RECV", .wait = w_recv},
};
enum { WAITERS = sizeof waiters / sizeof *waiters };

static void *run(void *arg) {
	struct waiter *w = arg;
	for (;;) {
		double from = t_now();
		long r = w->wait();
		if (r < 0 && errno == EINTR) atomic_fetch_add(&w->interrupted, 1);
		else if (r != 0) atomic_fetch_add(&w->other, 1);
		else if (w->timed && t_now() - from < WAIT_MS / 1e3 - 0.002) atomic_fetch_add(&w->early, 1);
		atomic_fetch_add(&w->calls, 1);
	}
	return NULL;
}

static void on_line(char *line) {
	(void)line;
	for (int i = 0; i < WAITERS; i++) {
		struct waiter *w = &waiters[i];
		printf("%s=%ld %ld %ld %ld\n", w->name, atomic_load(&w->calls), atomic_load(&w->interrupted), atomic_load(&w->early), atomic_load(&w->other));
	}
	puts("DONE=1");
}

static void on_tick(void) { NEED(write(pair[1], "x", 1) == 1 && write(fed[1], "x", 1) == 1); }

int main(int argc, char **argv) {
	t_begin(argc, argv, "A thread in each wait, counting what it returns.", NULL);
	NEED(!pipe(empty) && !pipe(fed) && !socketpair(AF_UNIX, SOCK_STREAM, 0, pair) && (poller = epoll_create1(0)) >= 0);
	NEED(!epoll_ctl(poller, EPOLL_CTL_ADD, empty[0], &(struct epoll_event){.events = EPOLLIN}));
	for (int i = 0; i < WAITERS; i++) t_thread(waiters[i].name, -1, run, &waiters[i]);
	t_ready();
	t_hold(on_line, on_tick, 100);
	return 0;
}
