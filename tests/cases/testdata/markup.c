// markup DIR: a process every text of which is markup or script.
#include "t.h"

static atomic_int there;

static void *thread(void *a) {
	(void)a;
	prctl(PR_SET_NAME, "\"><b>thr</b>");
	printf("THREAD_TID=%d\n", (int)t_tid());
	atomic_store(&there, 1);
	for (;;) pause();
	return NULL;
}

int main(int argc, char **argv) {
	char path[600];
	if (argc == 2) {
		char *args[] = {"<img src=x>", argv[1], "<script>window.pwned=1</script>", "javascript:alert(1)", "&lt;b&gt;", "line1\nline2\u202etxt", NULL};
		char *env[] = {"<b>ENV</b>=<svg onload=alert(1)>", "JS=</script><script>alert(1)</script>", "SSE=a\n\ndata: {}\n\nevent: x", NULL};
		execve("/proc/self/exe", args, env);
		NEED(!"execve");
	}
	NEED(argc == 6);
	t_stdin = 1;
	char *dir = argv[1];
	t_begin(1, argv, "", NULL);
	prctl(PR_SET_NAME, "<img src=x>\n");
	snprintf(path, sizeof path, "%s/<i onclick=x>map\n\"'&", dir);
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	NEED(fd >= 0 && !ftruncate(fd, 4096));
	void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	NEED(p != MAP_FAILED);
	printf("MAP=%p\nFILE_FD=%d\n", p, fd);
	snprintf(path, sizeof path, "%s/<u>fifo", dir);
	NEED(!mkfifo(path, 0600));
	fd = open(path, O_RDWR | O_CLOEXEC);
	NEED(fd >= 0);
	printf("FIFO_FD=%d\n", fd);
	struct sockaddr_un u = {.sun_family = AF_UNIX};
	NEED((size_t)snprintf(u.sun_path, sizeof u.sun_path, "%.80s/<b>s", dir) < sizeof u.sun_path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	NEED(fd >= 0 && !bind(fd, (struct sockaddr *)&u, sizeof u) && !listen(fd, 1));
	printf("SOCK_FD=%d\n", fd);
	NEED(chdir(dir) == 0);
	t_thread("x", -1, thread, NULL);
	while (!atomic_load(&there)) t_sleep_ms(1);
	t_ready();
	t_hold(NULL, NULL, 0);
	return 0;
}
