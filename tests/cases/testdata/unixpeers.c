// unixpeers DIR: a server with connections that have the same path, made with
// every type of UNIX socket, one client that is not accepted, and a process that
// has inherited them all.
#include "t.h"

static struct sockaddr_un address;

static int listener(int type) {
	int l = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
	NEED(l >= 0 && !bind(l, (struct sockaddr *)&address, sizeof address) && !listen(l, 8));
	return l;
}

static int client(int type) {
	int c = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
	NEED(c >= 0 && !connect(c, (struct sockaddr *)&address, sizeof address));
	return c;
}

// gives the descriptor to a process of its own
static pid_t give(const char *key, int fd) {
	pid_t p = t_child();
	if (!p) {
		for (int i = 3; i < 64; i++)
			if (i != fd) close(i);
		for (;;) pause();
	}
	printf("%s_PEER_PID=%d\n%s_PEER_FD=%d\n%s_PEER_INODE=%lu\n", key, (int)p, key, fd, key, t_inode(fd));
	close(fd);
	return p;
}

static void mine(const char *key, int fd) { printf("%s_FD=%d\n%s_INODE=%lu\n", key, fd, key, t_inode(fd)); }

int main(int argc, char **argv) {
	NEED(argc == 2);
	t_stdin = 1;
	t_begin(1, argv, "", NULL);
	address.sun_family = AF_UNIX;
	NEED((size_t)snprintf(address.sun_path, sizeof address.sun_path, "%.100s/s", argv[1]) < sizeof address.sun_path);
	int old = listener(SOCK_STREAM);
	NEED(!unlink(address.sun_path));
	int l = listener(SOCK_STREAM);
	mine("OLD_LISTEN", old);
	mine("LISTEN", l);
	for (int k = 1; k <= 2; k++) {
		char key[8];
		snprintf(key, sizeof key, "CONN%d", k);
		int c = client(SOCK_STREAM), s = accept4(l, NULL, NULL, SOCK_CLOEXEC);
		NEED(s >= 0);
		give(key, c);
		mine(key, s);
	}
	give("WAITING", client(SOCK_STREAM));
	static const struct { const char *key; int type; } pairs[] = {{"STREAM", SOCK_STREAM}, {"DGRAM", SOCK_DGRAM}, {"SEQPACKET", SOCK_SEQPACKET}};
	for (int i = 0; i < 3; i++) {
		int fd[2];
		NEED(!socketpair(AF_UNIX, pairs[i].type | SOCK_CLOEXEC, 0, fd));
		give(pairs[i].key, fd[1]);
		mine(pairs[i].key, fd[0]);
	}
	// An abstract datagram socket that a connected one sends to: one sided.
	struct sockaddr_un abs = {.sun_family = AF_UNIX};
	int n = snprintf(abs.sun_path + 1, sizeof abs.sun_path - 1, "unixpeers-%d", (int)getpid());
	socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
	int d = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0), e = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	NEED(d >= 0 && e >= 0 && !bind(d, (struct sockaddr *)&abs, len) && !connect(e, (struct sockaddr *)&abs, len));
	mine("SINK", d);
	give("SENDER", e);
	// A pair with both ends here: a peer within one process.
	int own[2];
	NEED(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, own));
	mine("OWN_A", own[0]);
	mine("OWN_B", own[1]);
	// Last: it holds what this process holds.
	pid_t heir = t_child();
	if (!heir)
		for (;;) pause();
	printf("HEIR_PID=%d\n", (int)heir);
	t_ready();
	t_hold(NULL, NULL, 0);
	return 0;
}
