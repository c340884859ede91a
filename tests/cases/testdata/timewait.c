// timewait ROWS: a port with one live connection, ROWS closed ones in TIME_WAIT
// and one that nobody has accepted.
#include "t.h"

int main(int argc, char **argv) {
	NEED(argc == 2);
	int rows = atoi(argv[1]);
	t_stdin = 1;
	t_begin(1, argv, "", NULL);
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t n = sizeof a;
	int l = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	NEED(l >= 0 && !bind(l, (struct sockaddr *)&a, n) && !listen(l, 64) && !getsockname(l, (struct sockaddr *)&a, &n));
	for (int i = 0; i < rows; i++) { // this end closes first, so that the row stays with the port
		int c = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		NEED(c >= 0 && !connect(c, (struct sockaddr *)&a, sizeof a));
		int s = accept4(l, NULL, NULL, SOCK_CLOEXEC);
		NEED(s >= 0);
		close(s);
		char b;
		NEED(read(c, &b, 1) == 0);
		close(c);
	}
	int c = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	NEED(c >= 0 && !connect(c, (struct sockaddr *)&a, sizeof a));
	int live = accept4(l, NULL, NULL, SOCK_CLOEXEC);
	NEED(live >= 0);
	int w = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	NEED(w >= 0 && !connect(w, (struct sockaddr *)&a, sizeof a));
	pid_t peer = t_child();
	if (!peer) {
		close(l), close(live), close(w);
		for (;;) pause();
	}
	pid_t waiting = t_child();
	if (!waiting) {
		close(l), close(live), close(c);
		for (;;) pause();
	}
	close(c), close(w);
	printf("PORT=%d\nLISTEN_FD=%d\nLIVE_FD=%d\nLIVE_INODE=%lu\nPEER_PID=%d\nPEER_FD=%d\nWAITING_PID=%d\nWAITING_FD=%d\n", ntohs(a.sin_port), l, live, t_inode(live),
	       (int)peer, c, (int)waiting, w);
	t_ready();
	t_hold(NULL, NULL, 0);
	return 0;
}
