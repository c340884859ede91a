// channels: two processes joined by every kind of pipe and socket.
#include "t.h"

static struct t_option options[] = {
	{"rate", "messages a second on each channel, 0 for silence", 5, 0, 10000},
	{NULL, NULL, 0, 0, 0},
};

enum { PIPE, FIFO, STREAM, DGRAM, SEQPACKET, PATH, ABSTRACT, TCP, TCP6, UDP, KINDS };
static const char *const names[KINDS] = {"PIPE", "FIFO", "STREAM", "DGRAM", "SEQPACKET", "PATH", "ABSTRACT", "TCP", "TCP6", "UDP"};
static int mine[KINDS], theirs[KINDS];
static char dir[512], fifo[600], sock[600];

// pair_of makes two connected ends through a listener and leaves it open.
static void pair_of(int kind, int family, int type, const void *addr, socklen_t len) {
	int l = socket(family, type | SOCK_CLOEXEC, 0);
	if (l < 0 && family == AF_INET6) return; // a kernel without IPv6
	NEED(l >= 0);
	if (bind(l, addr, len)) {
		NEED(family == AF_INET6 && errno == EADDRNOTAVAIL);
		close(l);
		return;
	}
	NEED(!listen(l, 8));
	struct sockaddr_storage at;
	socklen_t n = sizeof at;
	NEED(!getsockname(l, (struct sockaddr *)&at, &n));
	mine[kind] = socket(family, type | SOCK_CLOEXEC, 0);
	NEED(mine[kind] >= 0 && !connect(mine[kind], (struct sockaddr *)&at, n));
	theirs[kind] = accept4(l, NULL, NULL, SOCK_CLOEXEC);
	NEED(theirs[kind] >= 0);
	printf("%s_LISTEN_FD=%d\n", names[kind], l);
}

static void udp(void) {
	struct sockaddr_in a[2];
	int fd[2];
	for (int i = 0; i < 2; i++) {
		socklen_t n = sizeof a[i];
		a[i] = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
		fd[i] = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		NEED(fd[i] >= 0 && !bind(fd[i], (struct sockaddr *)&a[i], n) && !getsockname(fd[i], (struct sockaddr *)&a[i], &n));
	}
	for (int i = 0; i < 2; i++) NEED(!connect(fd[i], (struct sockaddr *)&a[1 - i], sizeof a[0]));
	mine[UDP] = fd[0];
	theirs[UDP] = fd[1];
}

static void both(int kind, int fd[2], int write_end) {
	mine[kind] = fd[write_end];
	theirs[kind] = fd[1 - write_end];
}

static void child(void) {
	prctl(PR_SET_NAME, "channels-reader");
	struct pollfd p[KINDS];
	for (int k = 0; k < KINDS; k++) {
		if (mine[k] >= 0) close(mine[k]);
		p[k] = (struct pollfd){.fd = theirs[k], .events = POLLIN};
	}
	char b[4096];
	for (;;) {
		if (poll(p, KINDS, -1) < 0) continue;
		for (int k = 0; k < KINDS; k++)
			if (p[k].revents && read(p[k].fd, b, sizeof b) <= 0) _exit(0); // the other side has ended
	}
}

static double owed;

static void tick(void) {
	for (owed += (double)options[0].value / 20; owed >= 1; owed--)
		for (int k = 0; k < KINDS; k++)
			if (mine[k] >= 0 && write(mine[k], "a message of 24 bytes..\n", 24) < 0 && errno != EAGAIN) t_stopping = 1;
}

int main(int argc, char **argv) {
	t_begin(argc, argv, "Two processes joined by pipes and sockets of every kind; this one writes, its child reads.", options);
	for (int k = 0; k < KINDS; k++) mine[k] = theirs[k] = -1;
	t_temp(dir, sizeof dir);
	int fd[2];
	NEED(!pipe2(fd, O_CLOEXEC));
	both(PIPE, fd, 1);
	snprintf(fifo, sizeof fifo, "%s/fifo", dir);
	NEED(!mkfifo(fifo, 0600));
	theirs[FIFO] = open(fifo, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	mine[FIFO] = open(fifo, O_WRONLY | O_CLOEXEC);
	NEED(theirs[FIFO] >= 0 && mine[FIFO] >= 0 && !fcntl(theirs[FIFO], F_SETFL, 0));
	static const int types[] = {SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET};
	for (int i = 0; i < 3; i++) {
		NEED(!socketpair(AF_UNIX, types[i] | SOCK_CLOEXEC, 0, fd));
		both(STREAM + i, fd, 1);
	}
	struct sockaddr_un u = {.sun_family = AF_UNIX};
	snprintf(sock, sizeof sock, "%s/socket", dir);
	NEED(strlen(sock) < sizeof u.sun_path);
	memcpy(u.sun_path, sock, strlen(sock));
	pair_of(PATH, AF_UNIX, SOCK_STREAM, &u, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(sock) + 1));
	memset(u.sun_path, 0, sizeof u.sun_path);
	int n = snprintf(u.sun_path + 1, sizeof u.sun_path - 1, "procinsh-target-%d", (int)getpid());
	pair_of(ABSTRACT, AF_UNIX, SOCK_STREAM, &u, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n));
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	pair_of(TCP, AF_INET, SOCK_STREAM, &in, sizeof in);
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	pair_of(TCP6, AF_INET6, SOCK_STREAM, &in6, sizeof in6);
	udp();

	pid_t c = t_child();
	if (!c) child();
	printf("CHILD_PID=%d\nFIFO_PATH=%s\nSOCKET_PATH=%s\n", (int)c, fifo, sock);
	for (int k = 0; k < KINDS; k++) {
		if (mine[k] < 0) continue;
		printf("%s_FD=%d\n%s_INODE=%lu\n%s_CHILD_FD=%d\n%s_CHILD_INODE=%lu\n", names[k], mine[k], names[k], t_inode(mine[k]),
		       names[k], theirs[k], names[k], t_inode(theirs[k]));
		NEED(!close(theirs[k]));
		if (k != FIFO) fcntl(mine[k], F_SETFL, fcntl(mine[k], F_GETFL) | O_NONBLOCK);
	}
	t_ready();
	t_hold(NULL, options[0].value ? tick : NULL, 50);
	kill(c, SIGKILL);
	waitpid(c, NULL, 0);
	unlink(fifo);
	unlink(sock);
	rmdir(dir);
	return 0;
}
