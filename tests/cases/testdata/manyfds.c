// manyfds TOTAL: about TOTAL descriptors of one pipe, spread over as many
// processes as the limit of each asks for, and one socket with a peer among them.
#include "t.h"
#include <sys/resource.h>

static long fill(const int *pipe, long n) {
	long made = 0;
	while (made < n && dup(pipe[made & 1]) >= 0) made++;
	return made;
}

int main(int argc, char **argv) {
	NEED(argc == 2);
	long total = atol(argv[1]);
	t_stdin = 1;
	t_begin(1, argv, "", NULL);
	struct rlimit r;
	NEED(!getrlimit(RLIMIT_NOFILE, &r));
	r.rlim_cur = r.rlim_max;
	NEED(!setrlimit(RLIMIT_NOFILE, &r));
	long per = (long)r.rlim_cur - 64 < total ? (long)r.rlim_cur - 64 : total;
	int sock[2], p[2], done[2];
	NEED(!socketpair(AF_UNIX, SOCK_STREAM, 0, sock) && !pipe(p) && !pipe(done));
	pid_t peer = t_child();
	if (!peer) {
		close(sock[0]);
		for (int i = 0; i < 2; i++) close(p[i]), close(done[i]);
		for (;;) pause();
	}
	close(sock[1]);
	long holders = (total + per - 1) / per - 1;
	for (long i = 0; i < holders; i++)
		if (!t_child()) {
			close(sock[0]);
			fill(p, per);
			if (write(done[1], "x", 1) != 1) _exit(1);
			for (;;) pause();
		}
	long made = fill(p, per);
	char c;
	for (long i = 0; i < holders; i++) NEED(read(done[0], &c, 1) == 1);
	close(done[0]);
	close(done[1]);
	printf("SOCK_FD=%d\nPEER_PID=%d\nPEER_FD=%d\nPIPE_INODE=%lu\nMADE=%ld\nHOLDERS=%ld\n", sock[0], (int)peer, sock[1], t_inode(p[0]), made, holders);
	t_ready();
	t_hold(NULL, NULL, 0);
	return 0;
}
