// zombie: the main thread has ended, three others live on.
#include "t.h"

static int sock[2], pip[2];
static char *mem;
static atomic_int begun; // threads that have told their number

static void *sleeper(void *a) {
	(void)a;
	printf("SLEEPER_TID=%d\n", (int)t_tid());
	atomic_fetch_add(&begun, 1);
	for (;;) pause();
	return NULL;
}

static void *busy(void *a) {
	(void)a;
	printf("BUSY_TID=%d\n", (int)t_tid());
	atomic_fetch_add(&begun, 1);
	for (;;) {
		for (double end = t_now() + 0.02; t_now() < end;) mem[4096] ^= 1;
		t_sleep_ms(80);
	}
	return NULL;
}

static char state(void) {
	char b[512];
	int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
	ssize_t n = read(fd, b, sizeof b - 1);
	close(fd);
	b[n > 0 ? n : 0] = 0;
	char *p = strrchr(b, ')');
	return p ? p[2] : '?';
}

static void *keeper(void *a) {
	(void)a;
	while (state() != 'Z' || atomic_load(&begun) < 2) t_sleep_ms(5);
	printf("KEEPER_TID=%d\n", (int)t_tid());
	t_ready();
	t_hold(NULL, NULL, 0);
	exit(0);
}

int main(int argc, char **argv) {
	(void)argc;
	t_stdin = 1;
	t_begin(1, argv, "", NULL);
	size_t size = 32 << 20;
	mem = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	NEED(mem != MAP_FAILED);
	memset(mem, 7, size);
	NEED(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sock) && !pipe2(pip, O_CLOEXEC));
	printf("MEM=%p\nMEM_BYTES=%zu\nSOCK_FD=%d\nSOCK_INODE=%lu\nPEER_FD=%d\nPIPE_R_FD=%d\nPIPE_W_FD=%d\nPIPE_INODE=%lu\n", (void *)mem, size, sock[0], t_inode(sock[0]), sock[1],
	       pip[0], pip[1], t_inode(pip[0]));
	t_thread("sleeper", -1, sleeper, NULL);
	t_thread("busy", -1, busy, NULL);
	t_thread("keeper", -1, keeper, NULL);
	pthread_exit(NULL);
}
