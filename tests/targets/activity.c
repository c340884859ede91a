// activity: an exact number of reads and writes, on request.
//
// This process writes, its child reads. They agree on how far they are through
// shared memory, so that nothing but what is asked for goes over the channels.
#include "t.h"

enum { PIPE, UNIX, TCP, KINDS };
static const char *const names[KINDS] = {"PIPE", "UNIX", "TCP"};
enum { FILES = KINDS };

struct counts {
	atomic_ullong write_calls, write_bytes, read_calls, read_bytes;
};

static struct shared {
	struct counts of[KINDS + 1];
	atomic_int kind, size, calls; // the order that stands
	atomic_uint order, done; // futex words
} *sh;

static int out[KINDS], in[KINDS], file;
static char dir[512], path[600];
static pid_t reader;

static void futex_wait(atomic_uint *w, unsigned seen) { syscall(SYS_futex, w, 0 /* FUTEX_WAIT */, seen, NULL, NULL, 0); }
static void futex_wake(atomic_uint *w) { syscall(SYS_futex, w, 1 /* FUTEX_WAKE */, 64, NULL, NULL, 0); }

static void child(void) {
	prctl(PR_SET_NAME, "activity-reader");
	for (int k = 0; k < KINDS; k++) close(out[k]);
	static char b[1 << 16];
	for (unsigned seen = 0;; seen++) {
		while (atomic_load(&sh->order) == seen) futex_wait(&sh->order, seen);
		int k = atomic_load(&sh->kind);
		size_t size = (size_t)atomic_load(&sh->size);
		for (int i = atomic_load(&sh->calls); i > 0; i--)
			for (size_t have = 0; have < size;) { // a stream may hand over a message in parts
				ssize_t n = read(in[k], b, size - have);
				if (n <= 0) _exit(1);
				have += (size_t)n;
				atomic_fetch_add(&sh->of[k].read_calls, 1);
				atomic_fetch_add(&sh->of[k].read_bytes, (unsigned long long)n);
			}
		atomic_fetch_add(&sh->done, 1);
		futex_wake(&sh->done);
	}
}

static void wrote(int k, ssize_t n, size_t size) {
	NEED(n == (ssize_t)size);
	atomic_fetch_add(&sh->of[k].write_calls, 1);
	atomic_fetch_add(&sh->of[k].write_bytes, size);
}

static void channel(int k, int calls, size_t size, const char *b) {
	unsigned order = atomic_load(&sh->order);
	atomic_store(&sh->kind, k);
	atomic_store(&sh->size, (int)size);
	atomic_store(&sh->calls, calls);
	atomic_fetch_add(&sh->order, 1);
	futex_wake(&sh->order);
	for (int i = 0; i < calls; i++) wrote(k, write(out[k], b, size), size);
	while (atomic_load(&sh->done) == order) futex_wait(&sh->done, order);
}

static void on_file(int calls, size_t size, char *b) {
	for (int i = 0; i < calls; i++) wrote(FILES, pwrite(file, b, size, (off_t)(i % 64) * (off_t)size), size);
	for (int i = 0; i < calls; i++) {
		NEED(pread(file, b, size, (off_t)(i % 64) * (off_t)size) == (ssize_t)size);
		atomic_fetch_add(&sh->of[FILES].read_calls, 1);
		atomic_fetch_add(&sh->of[FILES].read_bytes, size);
	}
}

static void report(void) {
	for (int k = 0; k <= KINDS; k++) {
		const char *n = k == FILES ? "FILE" : names[k];
		printf("%s_WRITE_CALLS=%llu\n%s_WRITE_BYTES=%llu\n%s_READ_CALLS=%llu\n%s_READ_BYTES=%llu\n", n, atomic_load(&sh->of[k].write_calls), n,
		       atomic_load(&sh->of[k].write_bytes), n, atomic_load(&sh->of[k].read_calls), n, atomic_load(&sh->of[k].read_bytes));
	}
	puts("DONE=1");
}

static void line(char *s) {
	static char b[1 << 16];
	char what[16];
	int calls, size;
	if (!strcmp(s, "report")) {
		report();
		return;
	}
	if (sscanf(s, "%15s %d %d", what, &calls, &size) != 3 || calls < 0 || calls > 1000000 || size < 1 || size > (int)sizeof b) {
		puts("ERROR=expected: file|pipe|unix|tcp|all CALLS BYTES, or report\nDONE=0");
		return;
	}
	int known = 0;
	for (int k = 0; k < KINDS; k++)
		if (!strcasecmp(what, names[k]) || !strcmp(what, "all")) channel(k, calls, (size_t)size, b), known = 1;
	if (!strcmp(what, "file") || !strcmp(what, "all")) on_file(calls, (size_t)size, b), known = 1;
	if (!known) {
		puts("ERROR=unknown channel\nDONE=0");
		return;
	}
	report();
}

int main(int argc, char **argv) {
	t_begin(argc, argv,
	        "Counted activity. A line \"file|pipe|unix|tcp|all CALLS BYTES\" on standard input makes that many writes of that\n"
	        "size and the reads that take them, then prints the counters since the start and DONE=1. \"report\" prints them again.\n"
	        "Reads and writes of standard input and output are not counted.", NULL);
	sh = mmap(NULL, sizeof *sh, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	NEED(sh != MAP_FAILED);
	int fd[2];
	NEED(!pipe2(fd, O_CLOEXEC));
	in[PIPE] = fd[0], out[PIPE] = fd[1];
	NEED(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd));
	in[UNIX] = fd[0], out[UNIX] = fd[1];
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t n = sizeof a;
	int l = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	NEED(l >= 0 && !bind(l, (struct sockaddr *)&a, n) && !listen(l, 1) && !getsockname(l, (struct sockaddr *)&a, &n));
	out[TCP] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	NEED(!connect(out[TCP], (struct sockaddr *)&a, n));
	in[TCP] = accept4(l, NULL, NULL, SOCK_CLOEXEC);
	NEED(in[TCP] >= 0);
	close(l);
	t_temp(dir, sizeof dir);
	snprintf(path, sizeof path, "%s/counted file", dir);
	file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	NEED(file >= 0);

	reader = t_child();
	if (!reader) child();
	for (int k = 0; k < KINDS; k++) {
		printf("%s_FD=%d\n%s_INODE=%lu\n%s_READER_FD=%d\n%s_READER_INODE=%lu\n", names[k], out[k], names[k], t_inode(out[k]), names[k], in[k],
		       names[k], t_inode(in[k]));
		close(in[k]);
	}
	printf("READER_PID=%d\nFILE_FD=%d\nFILE_INODE=%lu\nFILE=%s\n", (int)reader, file, t_inode(file), path);
	t_ready();
	t_hold(line, NULL, 0);
	kill(reader, SIGKILL);
	waitpid(reader, NULL, 0);
	unlink(path);
	rmdir(dir);
	return 0;
}
