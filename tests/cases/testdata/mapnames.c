// mapnames DIR NAME…: maps a file of each name. A name is in hex after one letter:
//   k  the file stays                d  it is unlinked
//   r  it is unlinked and another file takes its name
//   m  a memfd of this name
// File number i (from 1) is i pages long and has one page touched.
#include "t.h"

static int made(const char *path, off_t size) {
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	NEED(fd >= 0 && !ftruncate(fd, size));
	return fd;
}

int main(int argc, char **argv) {
	NEED(argc >= 2);
	long page = sysconf(_SC_PAGESIZE);
	t_stdin = 1;
	t_begin(1, argv, "", NULL);
	for (int i = 1; i + 1 < argc; i++) {
		char name[4096] = "", path[8192];
		const char *spec = argv[i + 1];
		for (size_t k = 0; spec[1 + 2 * k]; k++) {
			unsigned c;
			NEED(sscanf(spec + 1 + 2 * k, "%2x", &c) == 1);
			name[k] = (char)c;
		}
		snprintf(path, sizeof path, "%s/%s", argv[1], name);
		int fd = spec[0] == 'm' ? (int)syscall(SYS_memfd_create, name, 1u) : made(path, i * page);
		NEED(fd >= 0 && (spec[0] != 'm' || !ftruncate(fd, i * page)));
		char *p = mmap(NULL, (size_t)(i * page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		NEED(p != MAP_FAILED);
		p[0] = 1;
		printf("M%d=%p\nM%d_INODE=%lu\n", i, (void *)p, i, t_inode(fd));
		if (spec[0] == 'd' || spec[0] == 'r') NEED(!unlink(path));
		if (spec[0] == 'r') close(made(path, page));
		close(fd);
	}
	t_ready();
	t_hold(NULL, NULL, 0);
	return 0;
}
