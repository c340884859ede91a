// maps maps|smaps PID|all LOOPS: the limit for the mappings of one process, or of all: the
// file read and parsed to records.
#include "util.h"

struct map {
	uint64_t start, end, off, ino, rss, pss, swap, dirty;
	char perm[4];
	uint32_t major, minor;
	long name, len;
};

static struct map *ms;
static long n, cap, used, room;
static char *arena;
static const char *file;
static char path[64];
static long first; // mapping of the process that is being read

static uint64_t hex(const char **p) {
	uint64_t v = 0;
	for (;; (*p)++) {
		unsigned c = (unsigned char)**p, d = c - '0' < 10u ? c - '0' : c - 'a' < 6u ? c - 'a' + 10 : 99;
		if (d == 99) return v;
		v = v << 4 | d;
	}
}

static uint64_t kb(const char *p) {
	while (*p == ' ') p++;
	return num(&p) << 10;
}

static void line(const char *p, const char *end) {
	if (*p >= 'A' && *p <= 'Z') {
		if (n == first) return;
		struct map *m = &ms[n - 1];
		if (!memcmp(p, "Rss:", 4)) m->rss = kb(p + 4);
		else if (!memcmp(p, "Pss:", 4)) m->pss = kb(p + 4);
		else if (!memcmp(p, "Swap:", 5)) m->swap = kb(p + 5);
		else if (!memcmp(p, "Shared_Dirty:", 13)) m->dirty += kb(p + 13);
		else if (!memcmp(p, "Private_Dirty:", 14)) m->dirty += kb(p + 14);
		return;
	}
	if (n == cap) ms = realloc(ms, (size_t)(cap = cap * 2 + 1024) * sizeof *ms);
	struct map *m = &ms[n++];
	memset(m, 0, sizeof *m);
	m->start = hex(&p); p++;
	m->end = hex(&p); p++;
	memcpy(m->perm, p, 4); p += 5;
	m->off = hex(&p); p++;
	m->major = (uint32_t)hex(&p); p++;
	m->minor = (uint32_t)hex(&p); p++;
	m->ino = num(&p);
	while (p < end && *p == ' ') p++;
	if (p == end) return;
	m->len = end - p;
	if (n > first + 1 && ms[n - 2].len == m->len && !memcmp(arena + ms[n - 2].name, p, (size_t)m->len)) {
		m->name = ms[n - 2].name;
		return;
	}
	if (room - used < m->len) arena = realloc(arena, (size_t)(room = room * 2 + m->len + 65536));
	memcpy(arena + used, p, (size_t)m->len);
	m->name = used;
	used += m->len;
}

static void read_file(int fd) {
	static char b[1 << 18];
	first = n;
	long have = 0;
	for (long r; (r = read(fd, b + have, sizeof b - (size_t)have)) > 0;) {
		char *p = b, *end = b + have + r, *nl;
		while ((nl = memchr(p, '\n', (size_t)(end - p)))) { line(p, nl); p = nl + 1; }
		have = end - p;
		memmove(b, p, (size_t)have);
	}
	close(fd);
}

static void read_one(void) {
	n = used = 0;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) { perror(path); exit(1); }
	read_file(fd);
}

static void read_host(void) {
	static char b[1 << 16];
	n = used = 0;
	int dir = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0) { perror("/proc"); exit(1); }
	for (long got; (got = syscall(SYS_getdents64, dir, b, sizeof b)) > 0;)
		for (long at = 0; at < got; at += ((struct dent *)(b + at))->len) {
			const char *name = ((struct dent *)(b + at))->name;
			if (!is_num(name)) continue;
			snprintf(path, sizeof path, "%s/%s", name, file);
			int fd = openat(dir, path, O_RDONLY | O_CLOEXEC);
			if (fd >= 0) read_file(fd); // else it ended
		}
	close(dir);
}

int main(int argc, char **argv) {
	if (argc != 4) return 2;
	file = argv[1];
	int all = !strcmp(argv[2], "all");
	snprintf(path, sizeof path, "/proc/%s/%s", argv[2], file);
	job(all ? read_host : read_one, atoi(argv[3]), 0, &n, NULL);
	return 0;
}
