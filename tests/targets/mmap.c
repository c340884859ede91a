// mmap: one mapping of each kind, with values at known addresses.
#include "t.h"

static struct t_option options[] = {
	{"change-ms", "a mapping comes or goes this often, 0 never", 0, 0, 3600000},
	{NULL, NULL, 0, 0, 0},
};

static char dir[512], kept[600];
static long page;

static void *made(const char *key, size_t pages, int prot, int flags, int fd) {
	char *p = mmap(NULL, pages * (size_t)page, prot, flags, fd, 0);
	NEED(p != MAP_FAILED);
	printf("%s=0x%016lx\n%s_BYTES=%zu\n", key, (unsigned long)p, key, pages * (size_t)page);
	return p;
}

static int file(char *path, size_t cap, const char *name, size_t pages) {
	snprintf(path, cap, "%s/%s", dir, name);
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	NEED(fd >= 0 && !ftruncate(fd, (off_t)pages * page));
	return fd;
}

// What the value inspector of the page can be tried on.
struct values {
	char text[32];
	uint64_t u64;
	int64_t i64;
	uint32_t u32;
	int32_t i32;
	double f64;
	float f32;
	uint16_t u16;
	uint8_t u8;
	uint8_t pad;
	void *pointer;
};

static void *passing;

static void tick(void) {
	if (passing) {
		NEED(!munmap(passing, (size_t)page * 4));
		passing = NULL;
		return;
	}
	passing = mmap(NULL, (size_t)page * 4, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	NEED(passing != MAP_FAILED);
}

int main(int argc, char **argv) {
	t_begin(argc, argv, "Mappings of every kind: private and shared, file and anonymous, deleted, memfd, guard, executable.", options);
	page = sysconf(_SC_PAGESIZE);
	t_temp(dir, sizeof dir);
	char gone[600];

	struct values *v = made("VALUES", 2, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	*v = (struct values){.text = "a string, then numbers", .u64 = 0x0123456789abcdefu, .i64 = -2, .u32 = 4000000000u,
	                     .i32 = -70000, .f64 = 3.25, .f32 = -0.5f, .u16 = 65000, .u8 = 200, .pointer = v};

	int fd = file(kept, sizeof kept, "kept file  with blanks", 8);
	char *s = made("SHARED_FILE", 8, PROT_READ | PROT_WRITE, MAP_SHARED, fd);
	s[0] = 's';
	char *p = made("PRIVATE_FILE", 8, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd);
	p[0] = 'p';
	close(fd);
	printf("FILE_PATH=%s\n", kept);

	fd = file(gone, sizeof gone, "deleted", 4);
	char *d = made("DELETED_FILE", 4, PROT_READ | PROT_WRITE, MAP_SHARED, fd);
	d[0] = 'd';
	close(fd);
	unlink(gone);

	fd = (int)syscall(SYS_memfd_create, "a memfd", 1u /* MFD_CLOEXEC */);
	NEED(fd >= 0 && !ftruncate(fd, 4 * page));
	char *m = made("MEMFD", 4, PROT_READ | PROT_WRITE, MAP_SHARED, fd);
	m[0] = 'm';
	printf("MEMFD_FD=%d\n", fd);

	char *sa = made("SHARED_ANONYMOUS", 4, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1);
	sa[0] = 'a';
	made("GUARD", 16, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
	unsigned char *x = made("EXECUTABLE", 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	x[0] = 0xc3; // ret
	NEED(!mprotect(x, (size_t)page, PROT_READ | PROT_EXEC));
	// Readable up to here, then a hole: what a read that runs off the end meets.
	char *e = made("EDGE", 2, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	memset(e, 'e', (size_t)page);
	NEED(!munmap(e + page, (size_t)page));

	t_ready();
	t_hold(NULL, options[0].value ? tick : NULL, options[0].value);
	unlink(kept);
	rmdir(dir);
	return 0;
}
