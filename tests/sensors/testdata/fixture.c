// fixture.c: moves known numbers of bytes through every kind of object that the
// sensors count, uses the processor for a known time, and starts programs with
// fewer rights or in other namespaces.
//
//   fixture              reads commands from standard input, a line each, and
//                        answers KEY=VALUE lines up to DONE=1
//   fixture exit         ends at once
//   fixture host N ROOM  a busy host: N processes that sleep and others that do not;
//                        says DONE=1, and ends with standard input
//   fixture launch OPTION... -- PROGRAM [ARGUMENT...]
//
// OBJECT=name kind major minor inode generation path   something that was used
// PROC=name pid ticks                                  a process that used it
//
// What each command moves is fixed, and every call must return exactly that; the
// test holds the same numbers.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/errqueue.h>
#include <linux/fs.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NEED(e)                                                                          \
	do {                                                                                 \
		if (!(e)) {                                                                      \
			fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #e, strerror(errno)); \
			_exit(1);                                                                    \
		}                                                                                \
	} while (0)

static char dir[256], buf[1 << 17];
static const char *self;

static char *at(const char *name) {
	static char path[8][512];
	static int next;
	char *p = path[next++ & 7];
	snprintf(p, 512, "%s/%s", dir, name);
	return p;
}

static void object(const char *name, int fd, const char *path) {
	struct stat s;
	NEED(!fstat(fd, &s));
	const char *kind = S_ISFIFO(s.st_mode) ? "pipe" : S_ISSOCK(s.st_mode) ? "socket" : "file";
	unsigned long generation = 0;
	int known = S_ISREG(s.st_mode) && !ioctl(fd, FS_IOC_GETVERSION, &generation);
	printf("OBJECT=%s %s %u %u %lu %ld %s\n", name, kind, major(s.st_dev), minor(s.st_dev), (unsigned long)s.st_ino,
	       known ? (long)(uint32_t)generation : -1L, path);
}

// process prints field 22 of a process's stat as this process sees it.
static void process(const char *name, pid_t pid) {
	char path[64], b[1024];
	snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	NEED(fd >= 0);
	ssize_t n = read(fd, b, sizeof b - 1);
	NEED(n > 0);
	b[n] = 0;
	object("stat", fd, path);
	close(fd);
	char *p = strrchr(b, ')');
	NEED(p);
	for (int i = 0; i < 20; i++) NEED((p = strchr(p + 1, ' ')));
	printf("PROC=%s %d %s\n", name, (int)pid, strtok(p + 1, " "));
}

static void sleep_ms(long ms) {
	struct timespec t = {ms / 1000, ms % 1000 * 1000000};
	while (nanosleep(&t, &t) && errno == EINTR) {}
}

static double now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

// child runs f in a process of its own, which is named when it has ended.
static void child(const char *name, void (*f)(void)) {
	fflush(stdout); // or the child says it again
	pid_t pid = fork();
	NEED(pid >= 0);
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		f();
		fflush(stdout);
		_exit(0);
	}
	siginfo_t info;
	NEED(!waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT));
	process(name, pid);
	int status;
	NEED(waitpid(pid, &status, 0) == pid);
	if (status) {
		fprintf(stderr, "the child %s ended with %#x\n", name, status);
		_exit(1);
	}
}

static int make(const char *path, int flags) {
	int fd = open(path, flags | O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	if (fd < 0) fprintf(stderr, "open %s: %s\n", path, strerror(errno));
	NEED(fd >= 0);
	return fd;
}

static struct iovec three[3] = {{buf, 10}, {buf + 100, 20}, {buf + 200, 30}};

// Every read and write call for files: 50,167 bytes written in 6 calls, 40,229
// read in 7.
static void files(void) {
	char *path = at("data with blank");
	int fd = make(path, O_TRUNC), copy = make(at("copy"), O_TRUNC);
	object("data", fd, path);
	object("copy", copy, at("copy"));
	NEED(write(fd, buf, 50000) == 50000);
	NEED(writev(fd, three, 3) == 60);
	NEED(pwrite(fd, buf, 7, 100) == 7);
	NEED(pwritev(fd, three, 2, 5) == 30);
	NEED(pwritev2(fd, three, 3, 0, 0) == 60);
	NEED(pwritev2(fd, three, 1, -1, 0) == 10); // at the position, which moves: the file has 50,070 bytes
	NEED(lseek(fd, 0, SEEK_SET) == 0);
	NEED(read(fd, buf, 40000) == 40000);
	NEED(readv(fd, three, 3) == 60);
	NEED(pread(fd, buf, 9, 3) == 9);
	NEED(preadv(fd, three, 2, 1) == 30);
	NEED(preadv2(fd, three, 3, 0, 0) == 60);
	NEED(preadv2(fd, three, 3, -1, 0) == 60);
	NEED(lseek(fd, 50060, SEEK_SET) == 50060);
	NEED(read(fd, buf, 40000) == 10); // short
	NEED(read(fd, buf, 100) == 0);    // the end
	NEED(readv(fd, three, 3) == 0);

	// Failures.
	int only = open(path, O_RDONLY | O_CLOEXEC);
	NEED(only >= 0);
	NEED(read(-1, buf, 1) < 0 && errno == EBADF);
	NEED(write(only, buf, 1) < 0 && errno == EBADF);
	NEED(pread(fd, buf, 1, -5) < 0 && errno == EINVAL);
	char *closed = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	NEED(closed != MAP_FAILED);
	NEED(read(only, closed, 100) < 0 && errno == EFAULT);
	NEED(write(fd, closed, 100) < 0 && errno == EFAULT);
	munmap(closed, 4096);
	NEED(write(fd, buf, 0) == 0);

	// What is stated as not covered.
	off_t from = 0;
	NEED(sendfile(copy, fd, &from, 30000) == 30000);
	char *mapped = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	NEED(mapped != MAP_FAILED);
	memset(mapped, 1, 4096);
	munmap(mapped, 4096);
	close(only);
	close(copy);
	close(fd);
}

// Devices count as files; an eventfd does not.
static void devices(void) {
	int zero = open("/dev/zero", O_RDONLY | O_CLOEXEC), null = open("/dev/null", O_WRONLY | O_CLOEXEC), event = eventfd(0, EFD_CLOEXEC);
	NEED(zero >= 0 && null >= 0 && event >= 0);
	object("zero", zero, "/dev/zero");
	object("null", null, "/dev/null");
	object("event", event, "-");
	for (int i = 0; i < 5; i++) NEED(read(zero, buf, 100) == 100);
	for (int i = 0; i < 3; i++) NEED(write(null, buf, 64) == 64);
	uint64_t one = 1;
	NEED(write(event, &one, 8) == 8);
	NEED(read(event, &one, 8) == 8);
	close(zero);
	close(null);
	close(event);
}

static void unlinked(void) {
	char *path = at("gone");
	int fd = make(path, O_TRUNC);
	NEED(!unlink(path));
	object("gone", fd, at("gone (deleted)"));
	for (int i = 0; i < 3; i++) NEED(write(fd, buf, 100) == 100);
	NEED(pread(fd, buf, 500, 0) == 300);
	close(fd);

	fd = memfd_create("shared memory", MFD_CLOEXEC);
	NEED(fd >= 0);
	object("memfd", fd, "/memfd:shared memory (deleted)");
	NEED(write(fd, buf, 123) == 123 && write(fd, buf, 123) == 123);
	NEED(pread(fd, buf, 50, 0) == 50);
	close(fd);
}

static int moving = -1;

static void before_rename(void) {
	moving = make(at("old name"), O_TRUNC);
	object("moving", moving, at("old name"));
	NEED(write(moving, buf, 10) == 10);
}

static void after_rename(void) {
	NEED(mkdir(at("elsewhere"), 0755) == 0 || errno == EEXIST);
	NEED(!rename(at("old name"), at("elsewhere/new name")));
	object("moving", moving, at("elsewhere/new name"));
	NEED(write(moving, buf, 20) == 20);
	close(moving);
}

static void in_jail(void) {
	NEED(!chroot(at("jail")) && !chdir("/"));
	int fd = make("/inside", O_TRUNC);
	object("jailed", fd, at("jail/inside"));
	NEED(write(fd, buf, 31) == 31);
	close(fd);
}

static void in_mounts(void) {
	NEED(!unshare(CLONE_NEWNS));
	NEED(!mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL));
	NEED(!mount("none", at("mounted"), "tmpfs", 0, NULL));
	int fd = make(at("mounted/file"), O_TRUNC);
	object("mounted", fd, at("mounted/file"));
	NEED(write(fd, buf, 77) == 77);
	close(fd);
	NEED(!mount(at("real"), at("bound"), NULL, MS_BIND, NULL));
	fd = make(at("bound/file"), O_TRUNC);
	object("bound", fd, at("bound/file"));
	NEED(write(fd, buf, 78) == 78);
	close(fd);
}

static void roots(void) {
	static const char *dirs[] = {"jail", "mounted", "real", "bound"};
	for (size_t i = 0; i < sizeof dirs / sizeof *dirs; i++) NEED(!mkdir(at(dirs[i]), 0755) || errno == EEXIST);
	child("jail", in_jail);
	child("mounts", in_mounts);
}

static void write_spaced(void) {
	int fd = make(at("spaced"), O_TRUNC);
	object("spaced", fd, at("spaced"));
	NEED(write(fd, buf, 41) == 41);
	close(fd);
}

static void write_timed(void) {
	int fd = make(at("timed"), O_TRUNC);
	object("timed", fd, at("timed"));
	NEED(write(fd, buf, 43) == 43);
	close(fd);
}

// A child is in the new namespace, its parent is not, and can go back.
static void namespaces(void) {
	NEED(!unshare(CLONE_NEWPID));
	child("pid namespace", write_spaced);
	int own = open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC);
	NEED(own >= 0 && !setns(own, CLONE_NEWPID));
	close(own);
	int time = open("/proc/self/ns/time", O_RDONLY | O_CLOEXEC);
	if (time < 0 || unshare(0x80 /* CLONE_NEWTIME */)) {
		puts("NO_TIME_NAMESPACE=1");
		return;
	}
	int offsets = open("/proc/self/timens_offsets", O_WRONLY | O_CLOEXEC);
	NEED(offsets >= 0);
	char path[64];
	snprintf(path, sizeof path, "/proc/%d/timens_offsets", (int)getpid()); // what "self" leads to
	object("offsets", offsets, path);
	NEED(write(offsets, "boottime 86400 0", 16) == 16);
	close(offsets);
	child("time namespace", write_timed);
	NEED(!setns(time, 0x80));
	close(time);
}

static void *thread_write(void *own) {
	int fd = make(at("threads"), O_APPEND);
	if (own) NEED(!unshare(CLONE_FILES)); // a descriptor table of its own: the numbers mean something else here
	NEED(write(fd, buf, 17) == 17);
	if (own) {
		int other = make(at("own table"), O_TRUNC);
		NEED(dup2(other, fd) == fd);
		object("own table", fd, at("own table"));
		NEED(write(fd, buf, 19) == 19);
		close(other);
	}
	close(fd);
	return NULL;
}

static void *outlive(void *leader) {
	NEED(!pthread_join(*(pthread_t *)leader, NULL));
	int fd = make(at("leaderless"), O_TRUNC);
	object("leaderless", fd, at("leaderless"));
	NEED(write(fd, buf, 23) == 23);
	close(fd);
	fflush(stdout);
	_exit(0);
}

static void without_leader(void) {
	static pthread_t leader;
	leader = pthread_self();
	pthread_t t;
	NEED(!pthread_create(&t, NULL, outlive, &leader));
	pthread_exit(NULL);
}

static void threads(void) {
	int fd = make(at("threads"), O_TRUNC);
	object("threads", fd, at("threads"));
	close(fd);
	for (long own = 0; own < 2; own++) {
		pthread_t t;
		NEED(!pthread_create(&t, NULL, thread_write, (void *)own));
		NEED(!pthread_join(t, NULL));
	}
	child("leaderless", without_leader);
}

static void pipes(void) {
	int a[2], s[2], t[2], f[2];
	NEED(!pipe2(a, O_CLOEXEC) && !pipe2(s, O_CLOEXEC) && !pipe2(t, O_CLOEXEC) && !pipe2(f, O_CLOEXEC | O_NONBLOCK));
	object("pipe", a[0], "-");
	for (int i = 0; i < 3; i++) NEED(write(a[1], buf, 1000) == 1000);
	NEED(writev(a[1], three, 3) == 60);
	NEED(read(a[0], buf, 1000) == 1000);
	NEED(read(a[0], buf, 2000) == 2000);
	NEED(readv(a[0], three, 3) == 60);
	NEED(pread(a[0], buf, 1, 0) < 0 && errno == ESPIPE);

	object("full", f[0], "-");
	NEED(fcntl(f[1], F_SETPIPE_SZ, 65536) == 65536);
	NEED(read(f[0], buf, 1) < 0 && errno == EAGAIN);
	NEED(write(f[1], buf, 100000) == 65536); // as much as has room
	NEED(write(f[1], buf, 1) < 0 && errno == EAGAIN);
	NEED(read(f[0], buf, 40000) == 40000);
	NEED(read(f[0], buf, 40000) == 25536);

	object("spliced from", s[0], "-");
	object("spliced to", t[0], "-");
	NEED(write(s[1], buf, 500) == 500);
	NEED(tee(s[0], t[1], 100, 0) == 100);
	NEED(splice(s[0], NULL, t[1], NULL, 300, 0) == 300);
	NEED(read(s[0], buf, 1000) == 200);
	NEED(read(t[0], buf, 1000) == 400);

	char *path = at("fifo");
	NEED(!mkfifo(path, 0644) || errno == EEXIST);
	int fifo = open(path, O_RDWR | O_CLOEXEC);
	NEED(fifo >= 0);
	object("fifo", fifo, "-");
	NEED(write(fifo, buf, 10) == 10 && write(fifo, buf, 15) == 15);
	NEED(read(fifo, buf, 100) == 25);
	int all[] = {a[0], a[1], s[0], s[1], t[0], t[1], f[0], f[1], fifo};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) close(all[i]);
}

// messages fills n messages of three parts, 60 bytes each.
static void messages(struct mmsghdr *m, int n, void *name, socklen_t len) {
	memset(m, 0, sizeof *m * (size_t)n);
	for (int i = 0; i < n; i++) {
		m[i].msg_hdr.msg_iov = three;
		m[i].msg_hdr.msg_iovlen = 3;
		m[i].msg_hdr.msg_name = name;
		m[i].msg_hdr.msg_namelen = len;
	}
}

static void unixes(void) {
	int s[2], d[2], q[2], m[2];
	NEED(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, s) && !socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, d));
	NEED(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, q) && !socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, m));
	struct msghdr h = {.msg_iov = three, .msg_iovlen = 3};

	object("stream out", s[0], "-");
	object("stream in", s[1], "-");
	NEED(write(s[0], buf, 100) == 100 && send(s[0], buf, 50, 0) == 50 && sendmsg(s[0], &h, 0) == 60 && writev(s[0], three, 2) == 30);
	NEED(recv(s[1], buf, 1000, MSG_PEEK) == 240 && recvmsg(s[1], &h, MSG_PEEK) == 60);
	NEED(read(s[1], buf, 100) == 100 && recv(s[1], buf, 50, 0) == 50 && recvmsg(s[1], &h, 0) == 60 && readv(s[1], three, 2) == 30);
	NEED(recv(s[1], buf, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN);

	object("datagram out", d[0], "-");
	object("datagram in", d[1], "-");
	NEED(send(d[0], buf, 100, 0) == 100 && send(d[0], buf, 0, 0) == 0 && write(d[0], buf, 40) == 40);
	NEED(recv(d[1], buf, 10, 0) == 10); // the rest of the datagram is gone
	NEED(recv(d[1], buf, 10, 0) == 0);
	NEED(read(d[1], buf, 1000) == 40);

	object("packets out", q[0], "-");
	object("packets in", q[1], "-");
	for (int i = 0; i < 5; i++) NEED(send(q[0], buf, 100, 0) == 100);
	for (int i = 0; i < 5; i++) {
		NEED(recv(q[1], buf, 1000, MSG_PEEK) == 100 && recvmsg(q[1], &h, MSG_PEEK) == 60);
		NEED(recv(q[1], buf, 1000, 0) == 100);
	}

	struct mmsghdr v[3];
	object("many out", m[0], "-");
	object("many in", m[1], "-");
	messages(v, 3, NULL, 0);
	NEED(sendmmsg(m[0], v, 3, 0) == 3);
	messages(v, 3, NULL, 0);
	NEED(recvmmsg(m[1], v, 3, 0, NULL) == 3);
	int all[] = {s[0], s[1], d[0], d[1], q[0], q[1], m[0], m[1]};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) close(all[i]);
}

static void bind_loopback(int fd, struct sockaddr_in *a) {
	*a = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t n = sizeof *a;
	NEED(!bind(fd, (void *)a, n) && !getsockname(fd, (void *)a, &n));
}

static void tcp_pair(int p[2]) {
	struct sockaddr_in a;
	int l = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bind_loopback(l, &a);
	NEED(!listen(l, 1));
	p[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	NEED(!connect(p[0], (void *)&a, sizeof a));
	p[1] = accept4(l, NULL, NULL, SOCK_CLOEXEC);
	NEED(p[1] >= 0);
	close(l);
}

static void tcp(void) {
	int p[2];
	tcp_pair(p);
	object("tcp out", p[0], "-");
	object("tcp in", p[1], "-");
	for (int i = 0; i < 10; i++) NEED(send(p[0], buf, 1000, 0) == 1000);
	NEED(recv(p[1], buf, 500, MSG_PEEK | MSG_WAITALL) == 500);
	for (int i = 0; i < 10; i++) NEED(recv(p[1], buf, 1000, MSG_WAITALL) == 1000);

	// sendfile and splice into a socket do not count, what arrives does.
	int fd = make(at("sent"), O_TRUNC), pi[2];
	NEED(!pipe2(pi, O_CLOEXEC));
	object("sent", fd, at("sent"));
	object("spliced into a socket", pi[0], "-");
	NEED(pwrite(fd, buf, 500, 0) == 500 && write(pi[1], buf, 200) == 200);
	off_t from = 0;
	NEED(sendfile(p[0], fd, &from, 500) == 500);
	NEED(splice(pi[0], NULL, p[0], NULL, 200, 0) == 200);
	NEED(recv(p[1], buf, 700, MSG_WAITALL) == 700);
	int all[] = {p[0], p[1], fd, pi[0], pi[1]};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) close(all[i]);
}

static void udp(void) {
	struct sockaddr_in to, from, closed;
	int in = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), out = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bind_loopback(in, &to);
	bind_loopback(out, &from);
	object("udp out", out, "-");
	object("udp in", in, "-");
	for (int i = 0; i < 5; i++) NEED(sendto(out, buf, 100, 0, (void *)&to, sizeof to) == 100);
	NEED(recvfrom(in, buf, 1000, MSG_PEEK, NULL, NULL) == 100);
	for (int i = 0; i < 5; i++) NEED(recvfrom(in, buf, 1000, 0, NULL, NULL) == 100);
	NEED(!connect(out, (void *)&to, sizeof to));
	NEED(write(out, buf, 33) == 33 && read(in, buf, 1000) == 33);

	struct mmsghdr v[4];
	int many = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	object("udp many out", many, "-");
	messages(v, 4, &to, sizeof to); // the same address again and again takes a short way through the kernel
	NEED(sendmmsg(many, v, 4, 0) == 4);
	for (int i = 0; i < 4; i++) NEED(recv(in, buf, 1000, 0) == 60);

	// An error comes back with the bytes that caused it; they were counted when sent.
	int refused = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), one = 1, gone = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bind_loopback(gone, &closed);
	close(gone);
	NEED(!setsockopt(refused, IPPROTO_IP, IP_RECVERR, &one, sizeof one));
	object("refused", refused, "-");
	NEED(sendto(refused, buf, 12, 0, (void *)&closed, sizeof closed) == 12);
	struct pollfd ready = {refused, 0, 0};
	NEED(poll(&ready, 1, 15000) == 1);
	char control[512];
	struct iovec part = {buf, 100};
	struct msghdr h = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
	NEED(recvmsg(refused, &h, MSG_ERRQUEUE) == 12);
	int all[] = {in, out, many, refused};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) close(all[i]);
}

// A great many operations, as fast as they go.
static void storm(long n) {
	int zero = open("/dev/zero", O_RDONLY | O_CLOEXEC), p[2], s[2];
	NEED(zero >= 0 && !pipe2(p, O_CLOEXEC) && !socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, s));
	object("zero", zero, "/dev/zero");
	object("pipe", p[0], "-");
	object("stream out", s[0], "-");
	object("stream in", s[1], "-");
	for (long i = 0; i < n; i++) NEED(read(zero, buf, 1) == 1);
	for (long i = 0; i < n / 2; i++) NEED(write(p[1], buf, 3) == 3 && read(p[0], buf, 3) == 3);
	for (long i = 0; i < n / 4; i++) NEED(send(s[0], buf, 5, 0) == 5 && recv(s[1], buf, 5, 0) == 5);
	int all[] = {zero, p[0], p[1], s[0], s[1]};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) close(all[i]);
}

// Ten bytes into each of n files, in a folder that is removed afterwards.
static void many(long n) {
	NEED(!mkdir(at("many"), 0755));
	for (long i = 0; i < n; i++) {
		char name[64];
		snprintf(name, sizeof name, "many/file-%05ld", i);
		int fd = make(at(name), O_TRUNC);
		if (i == 0) {
			struct stat s;
			NEED(!fstat(fd, &s));
			printf("MANY=%u %u\n", major(s.st_dev), minor(s.st_dev));
		}
		NEED(write(fd, buf, 10) == 10);
		close(fd);
	}
	printf("DIR=%s\n", at("many"));
	for (long i = 0; i < n; i++) {
		char name[64];
		snprintf(name, sizeof name, "many/file-%05ld", i);
		NEED(!unlink(at(name)));
	}
	NEED(!rmdir(at("many")));
}

static double spin_until;

static void *spin(void *unused) {
	(void)unused;
	while (now() < spin_until) {}
	return NULL;
}

// Threads that only compute. They stay until all have been accounted for.
static void compute(long n, long ms) {
	pthread_t t[16];
	spin_until = now() + (double)ms / 1000;
	for (long i = 0; i < n - 1; i++) NEED(!pthread_create(&t[i], NULL, spin, NULL));
	spin(NULL);
	for (long i = 0; i < n - 1; i++) NEED(!pthread_join(t[i], NULL));
}

// The same, with the account of all threads, also of those that have ended.
static void account(long n, long ms) {
	struct timespec a, b;
	NEED(!clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a));
	compute(n, ms);
	NEED(!clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &b));
	printf("ACCOUNT_NS=%ld\n", (b.tv_sec - a.tv_sec) * 1000000000L + b.tv_nsec - a.tv_nsec);
}

// Two processes that wake each other, ms long.
static void pingpong(long ms) {
	int a[2], b[2];
	NEED(!pipe2(a, O_CLOEXEC) && !pipe2(b, O_CLOEXEC));
	object("ping", a[0], "-");
	object("pong", b[0], "-");
	pid_t pid = fork();
	NEED(pid >= 0);
	char c = 1;
	if (!pid) {
		close(a[1]);
		while (read(a[0], &c, 1) == 1 && write(b[1], &c, 1) == 1) {}
		_exit(0);
	}
	long n = 0;
	for (double end = now() + (double)ms / 1000; now() < end; n++) NEED(write(a[1], &c, 1) == 1 && read(b[0], &c, 1) == 1);
	close(a[1]);
	siginfo_t info;
	NEED(!waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT));
	process("pong", pid);
	struct rusage r;
	NEED(wait4(pid, NULL, 0, &r) == pid);
	printf("ROUNDS=%ld\nPONG_US=%ld\n", n, (long)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) * 1000000 + r.ru_utime.tv_usec + r.ru_stime.tv_usec);
	int all[] = {a[0], b[0], b[1]};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) close(all[i]);
}

// Processes that live for a moment, one after the other.
static void brief(long n) {
	struct rusage before, after;
	NEED(!getrusage(RUSAGE_CHILDREN, &before));
	char *argv[] = {(char *)self, "exit", NULL}, *env[] = {NULL};
	for (long i = 0; i < n; i++) {
		pid_t pid;
		NEED(!posix_spawn(&pid, self, NULL, NULL, argv, env));
		siginfo_t info;
		NEED(!waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT));
		process("brief", pid);
		NEED(waitpid(pid, NULL, 0) == pid);
	}
	NEED(!getrusage(RUSAGE_CHILDREN, &after));
	printf("CHILDREN_US=%ld\n", (long)(after.ru_utime.tv_sec - before.ru_utime.tv_sec + after.ru_stime.tv_sec - before.ru_stime.tv_sec) * 1000000 +
	                                 after.ru_utime.tv_usec - before.ru_utime.tv_usec + after.ru_stime.tv_usec - before.ru_stime.tv_usec);
}

static int serve(void) {
	signal(SIGPIPE, SIG_IGN);
	static char out[1 << 20];
	setvbuf(stdout, out, _IOFBF, sizeof out); // answers go out whole, and are no business of what is counted
	setvbuf(stdin, NULL, _IONBF, 0);
	const char *base = getenv("FIXTURE_DIR");
	snprintf(dir, sizeof dir, "%s", base ? base : "/tmp");
	process("main", getpid());
	object("stdin", 0, "-");
	object("stdout", 1, "-");
	puts("DONE=1");
	fflush(stdout);
	char line[256];
	while (fgets(line, sizeof line, stdin)) {
		char verb[32] = "";
		long a = 0, b = 0;
		sscanf(line, "%31s %ld %ld", verb, &a, &b);
		static const struct {
			const char *name;
			void (*f)(void);
		} plain[] = {{"files", files}, {"devices", devices}, {"unlinked", unlinked}, {"rename1", before_rename}, {"rename2", after_rename},
		             {"roots", roots}, {"namespaces", namespaces}, {"threads", threads}, {"pipes", pipes}, {"unix", unixes}, {"tcp", tcp}, {"udp", udp}};
		size_t i = 0, n = sizeof plain / sizeof *plain;
		while (i < n && strcmp(verb, plain[i].name)) i++;
		if (i < n) plain[i].f();
		else if (!strcmp(verb, "storm")) storm(a);
		else if (!strcmp(verb, "many")) many(a);
		else if (!strcmp(verb, "compute")) compute(a, b);
		else if (!strcmp(verb, "account")) account(a, b);
		else if (!strcmp(verb, "pingpong")) pingpong(a);
		else if (!strcmp(verb, "brief")) brief(a);
		else if (!strcmp(verb, "sleep")) sleep_ms(a);
		else {
			fprintf(stderr, "unknown command: %s", line);
			return 2;
		}
		puts("DONE=1");
		fflush(stdout);
	}
	return 0;
}

static pid_t launched;

static void pass_on(int sig) {
	if (launched > 0) kill(launched, sig);
}

static int become(uid_t uid, uint64_t caps) {
	NEED(!prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0));
	NEED(!syscall(SYS_setgroups, 0, NULL) && !syscall(SYS_setresgid, uid, uid, uid) && !syscall(SYS_setresuid, uid, uid, uid));
	struct __user_cap_header_struct h = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct d[2];
	for (int i = 0; i < 2; i++) d[i].effective = d[i].permitted = d[i].inheritable = (uint32_t)(caps >> 32 * i);
	NEED(!syscall(SYS_capset, &h, d));
	for (unsigned long c = 0; c < 64; c++)
		if (caps >> c & 1) NEED(!prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, c, 0, 0));
	return 0;
}

// launch starts a program with other rights or in other namespaces:
//   uid=N caps=HEX   that user, with these capabilities and no other
//   hide=DIR         an empty file system over DIR
//   pidns            PID namespace with a /proc of its own
//   timens=SECONDS   time namespace whose boot was so much earlier
//   enter=PID        the PID and mount namespaces of that process
//   memlock=BYTES    RLIMIT_MEMLOCK
static int launch(char **argv) {
	uid_t uid = 0;
	int pidns = 0, timens = 0, other = 0;
	uint64_t caps = 0;
	for (; *argv && strcmp(*argv, "--"); argv++) {
		char *v = strchr(*argv, '=');
		if (v) *v++ = 0;
		if (!strcmp(*argv, "uid")) uid = (uid_t)atol(v), other = 1;
		else if (!strcmp(*argv, "caps")) caps = strtoull(v, NULL, 16);
		else if (!strcmp(*argv, "memlock")) {
			struct rlimit r = {strtoull(v, NULL, 10), strtoull(v, NULL, 10)};
			NEED(!setrlimit(RLIMIT_MEMLOCK, &r) || errno == EPERM); // as high as it is allowed to be
		} else if (!strcmp(*argv, "hide")) {
			NEED(!unshare(CLONE_NEWNS) && !mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL));
			NEED(!mount("none", v, "tmpfs", 0, NULL));
		} else if (!strcmp(*argv, "pidns")) {
			NEED(!unshare(CLONE_NEWPID | CLONE_NEWNS) && !mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL));
			pidns = 1;
		} else if (!strcmp(*argv, "timens")) {
			NEED(!unshare(0x80));
			FILE *f = fopen("/proc/self/timens_offsets", "w");
			NEED(f && fprintf(f, "boottime %s 0", v) > 0 && !fclose(f));
			timens = 1;
		} else if (!strcmp(*argv, "enter")) {
			char p[64];
			snprintf(p, sizeof p, "/proc/%s/ns/pid", v);
			int pid = open(p, O_RDONLY | O_CLOEXEC);
			snprintf(p, sizeof p, "/proc/%s/ns/mnt", v);
			int mnt = open(p, O_RDONLY | O_CLOEXEC);
			NEED(pid >= 0 && mnt >= 0 && !setns(pid, CLONE_NEWPID) && !setns(mnt, CLONE_NEWNS));
		} else {
			fprintf(stderr, "launch: unknown option %s\n", *argv);
			return 2;
		}
	}
	if (!*argv || !argv[1]) return 2;
	argv++;
	(void)timens;
	struct sigaction sa = {.sa_handler = pass_on};
	NEED(!sigaction(SIGTERM, &sa, NULL) && !sigaction(SIGINT, &sa, NULL));
	launched = fork();
	NEED(launched >= 0);
	if (!launched) {
		signal(SIGTERM, SIG_DFL);
		signal(SIGINT, SIG_DFL);
		if (pidns) NEED(!mount("none", "/proc", "proc", 0, NULL));
		if (other) become(uid, caps);
		prctl(PR_SET_PDEATHSIG, SIGKILL); // after the change of user, which clears it
		execv(argv[0], argv);
		fprintf(stderr, "launch: %s: %s\n", argv[0], strerror(errno));
		_exit(127);
	}
	int status;
	while (waitpid(launched, &status, 0) < 0) NEED(errno == EINTR);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// titled overwrites what /proc/PID/cmdline shows, from the first argument to the end
// of the last, and as setproctitle does also what lies behind.
static void titled(char **argv, const char *title) {
	char *end = argv[3] + strlen(argv[3]) + 1;
	memset(argv[0], 0, (size_t)(end - argv[0]));
	snprintf(argv[0], (size_t)(end - argv[0]), "%s", title);
}

// begun is fork for a process of the host that is named and ends with its parent.
static int begun(const char *name) {
	pid_t p = fork();
	NEED(p >= 0);
	if (p) return 0;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NAME, name);
	return 1;
}

static void rest(void) {
	for (;;) pause();
}

static void *resting(void *x) {
	rest();
	return x;
}

static void touch(size_t pages) {
	char *p = mmap(NULL, pages << 12, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	NEED(p != MAP_FAILED);
	for (size_t i = 0; i < pages; i++) p[i << 12] = 1;
	munmap(p, pages << 12);
}

// sleeper i of the host is one of many kinds.
static void sleeper(char **argv, int i) {
	char text[64];
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	snprintf(text, sizeof text, "sleeper %d", i);
	prctl(PR_SET_NAME, text);
	if (i % 3 == 1) titled(argv, text);
	if (i % 50 == 2) memset(argv[0], 'x', (size_t)(argv[3] + strlen(argv[3]) + 1 - argv[0])); // no end: the kernel reads on
	if (i % 5 == 0) NEED(!setpriority(PRIO_PROCESS, 0, 3));
	if (i % 4 == 0) {
		NEED(!setresgid(1000, 1001, 1001) && !setresuid(1000 + (uid_t)i % 3, 1001, 1001));
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	}
	pthread_t t;
	if (i % 97 == 0)
		for (int k = 0; k < 3; k++) NEED(!pthread_create(&t, NULL, resting, NULL));
	rest();
}

static int host(int n, char **argv) {
	char text[64];
	for (int i = 0; i < n; i++) {
		pid_t p = fork();
		NEED(p >= 0);
		if (!p) sleeper(argv, i);
	}
	for (int i = 0; i < 8; i++)
		if (begun("zombie")) _exit(0);
	if (begun("leaderless")) {
		pthread_t t;
		NEED(!pthread_create(&t, NULL, resting, NULL));
		syscall(SYS_exit, 0);
	}
	static const struct { const char *name; int flags; } spaces[] = {
		{"ns pid", CLONE_NEWPID}, {"ns user", CLONE_NEWUSER}, {"ns mount", CLONE_NEWNS}, {"ns all", CLONE_NEWPID | CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWNET},
	};
	for (size_t i = 0; i < sizeof spaces / sizeof *spaces; i++)
		if (begun(spaces[i].name)) {
			NEED(!unshare(spaces[i].flags));
			for (int k = 0; k < 3; k++)
				if (begun(spaces[i].name)) rest();
			rest();
		}
	for (int i = 0; i < 2; i++)
		if (begun("titles"))
			for (unsigned k = 0;; k++) {
				snprintf(text, sizeof text, "title %u", k);
				titled(argv, text);
				snprintf(text, sizeof text, "t%u", k);
				prctl(PR_SET_NAME, text);
				touch(1 + k % 64);
				usleep(20000);
			}
	for (int i = 0; i < 2; i++)
		if (begun("storm"))
			for (;;) {
				pid_t p = fork();
				NEED(p >= 0);
				if (!p) {
					touch(100);
					execl(self, "fixture", "exit", NULL);
					_exit(1);
				}
				waitpid(p, NULL, 0);
				usleep(1000);
			}
	puts("DONE=1");
	fflush(stdout);
	while (read(0, text, sizeof text) > 0) {}
	kill(0, SIGKILL);
	return 0;
}

int main(int argc, char **argv) {
	static char exe[4096];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
	self = n > 0 ? exe : argv[0];
	if (argc > 1 && !strcmp(argv[1], "exit")) return 0;
	if (argc == 4 && !strcmp(argv[1], "host")) return host(atoi(argv[2]), argv);
	if (argc > 1 && !strcmp(argv[1], "launch")) return launch(argv + 2);
	return serve();
}
