// netpair own|host SERVER_PORT CLIENT_PORT UDP_PORT UDP_PORT2: two processes that talk over
// loopback with these very ports, in a network namespace of their own or in this one.
#include "t.h"
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>

static struct sockaddr_in at(int port) {
	return (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons((uint16_t)port)};
}

static int bound(int type, int port) {
	struct sockaddr_in a = at(port);
	int one = 1, fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);
	NEED(fd >= 0 && !setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) && !bind(fd, (struct sockaddr *)&a, sizeof a));
	return fd;
}

static void join(int fd, int port) {
	struct sockaddr_in a = at(port);
	NEED(!connect(fd, (struct sockaddr *)&a, sizeof a));
}

int main(int argc, char **argv) {
	NEED(argc == 6);
	int sp = atoi(argv[2]), cp = atoi(argv[3]), up = atoi(argv[4]), vp = atoi(argv[5]);
	t_stdin = 1;
	t_begin(1, argv, "", NULL);
	if (!strcmp(argv[1], "own")) {
		if (unshare(CLONE_NEWNET)) {
			printf("SKIP=no network namespace can be made here: %s\n", strerror(errno));
			fflush(stdout);
			return 0;
		}
		struct ifreq up_lo = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
		int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		NEED(s >= 0 && !ioctl(s, SIOCSIFFLAGS, &up_lo));
		close(s);
	}
	int l = bound(SOCK_STREAM, sp), c = bound(SOCK_STREAM, cp), u = bound(SOCK_DGRAM, up), v = bound(SOCK_DGRAM, vp);
	NEED(!listen(l, 4));
	join(c, sp);
	join(u, vp);
	join(v, up);
	int a = accept4(l, NULL, NULL, SOCK_CLOEXEC), name[2];
	NEED(a >= 0);
	// A path: its two ends are in the socket tables of this namespace alone.
	char dir[512];
	struct sockaddr_un path = {.sun_family = AF_UNIX};
	t_temp(dir, sizeof dir);
	NEED((size_t)snprintf(path.sun_path, sizeof path.sun_path, "%.90s/s", dir) < sizeof path.sun_path);
	int ul = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	NEED(!bind(ul, (struct sockaddr *)&path, sizeof path) && !listen(ul, 1));
	name[1] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	NEED(!connect(name[1], (struct sockaddr *)&path, sizeof path));
	name[0] = accept4(ul, NULL, NULL, SOCK_CLOEXEC);
	NEED(name[0] >= 0);
	unlink(path.sun_path);
	rmdir(dir);

	pid_t client = t_child();
	if (!client) {
		close(l), close(a), close(u), close(ul), close(name[0]);
		for (;;) pause();
	}
	close(c), close(v), close(name[1]);
	printf("CLIENT_PID=%d\nLISTEN_FD=%d\nACCEPTED_FD=%d\nCLIENT_FD=%d\nUDP_FD=%d\nCLIENT_UDP_FD=%d\nUNIX_FD=%d\nCLIENT_UNIX_FD=%d\n", (int)client, l, a, c, u, v,
	       name[0], name[1]);
	t_ready();
	t_hold(NULL, NULL, 0);
	return 0;
}
