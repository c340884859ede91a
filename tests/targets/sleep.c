// sleep: one thread in each of the waits that programs are found in.
#include "t.h"
#include <sys/epoll.h>

static int quiet[2]; // a pipe nobody writes to
static int silent[2]; // a socket pair nobody writes to
static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;

static void say(const char *key) { printf("TID_%s=%d\n", key, (int)t_tid()); }

static void *in_nanosleep(void *a) {
	(void)a;
	say("clock_nanosleep");
	for (;;) t_sleep_ms(3600000);
	return NULL;
}

static void *in_futex(void *a) {
	(void)a;
	say("futex");
	pthread_mutex_lock(&held);
	return NULL;
}

static void *in_poll(void *a) {
	(void)a;
	say("poll");
	struct pollfd p = {.fd = quiet[0], .events = POLLIN};
	for (;;) poll(&p, 1, -1);
	return NULL;
}

static void *in_epoll(void *a) {
	(void)a;
	int e = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event ev = {.events = EPOLLIN};
	NEED(e >= 0 && !epoll_ctl(e, EPOLL_CTL_ADD, quiet[0], &ev));
	say("epoll_wait");
	for (;;) epoll_wait(e, &ev, 1, -1);
	return NULL;
}

static void *in_read(void *a) {
	(void)a;
	say("read");
	char c;
	for (;;)
		if (read(quiet[0], &c, 1) < 0) t_sleep_ms(1);
	return NULL;
}

static void *in_recv(void *a) {
	(void)a;
	say("recvfrom");
	char c;
	for (;;)
		if (recv(silent[0], &c, 1, 0) < 0) t_sleep_ms(1);
	return NULL;
}

static void *in_pause(void *a) {
	(void)a;
	say("pause");
	for (;;) syscall(SYS_pause);
	return NULL;
}

int main(int argc, char **argv) {
	t_begin(argc, argv, "Threads that wait, each in another system call. A fact TID_name says which thread waits in which.", NULL);
	NEED(!pipe2(quiet, O_CLOEXEC));
	NEED(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, silent));
	pthread_mutex_lock(&held);
	t_thread("nanosleep", -1, in_nanosleep, NULL);
	t_thread("futex", -1, in_futex, NULL);
	t_thread("poll", -1, in_poll, NULL);
	t_thread("epoll", -1, in_epoll, NULL);
	t_thread("read", -1, in_read, NULL);
	t_thread("recv", -1, in_recv, NULL);
	t_thread("pause", -1, in_pause, NULL);
	t_sleep_ms(100);
	printf("THREADS=8\nQUIET_FD=%d\nQUIET_INODE=%lu\n", quiet[0], t_inode(quiet[0]));
	t_ready();
	t_hold(NULL, NULL, 0);
	return 0;
}
