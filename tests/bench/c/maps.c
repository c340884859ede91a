// maps maps|smaps PID LOOPS: the limit for the mappings of one process: the file
// read and parsed to records.
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
		if (!n) return;
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
	if (n > 1 && ms[n - 2].len == m->len && !memcmp(arena + ms[n - 2].name, p, (size_t)m->len)) {
		m->name = ms[n - 2].name;
		return;
	}
	if (room - used < m->len) arena = realloc(arena, (size_t)(room = room * 2 + m->len + 65536));
	memcpy(arena + used, p, (size_t)m->len);
	m->name = used;
	used += m->len;
}

static void read_all(void) {
	static char b[1 << 18];
	n = used = 0;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) { perror(path); exit(1); }
	long have = 0;
	for (long r; (r = read(fd, b + have, sizeof b - (size_t)have)) > 0;) {
		char *p = b, *end = b + have + r, *nl;
		while ((nl = memchr(p, '\n', (size_t)(end - p)))) { line(p, nl); p = nl + 1; }
		have = end - p;
		memmove(b, p, (size_t)have);
	}
	close(fd);
}

int main(int argc, char **argv) {
	if (argc != 4) return 2;
	file = argv[1];
	snprintf(path, sizeof path, "/proc/%s/%s", argv[2], file);
	job(read_all, atoi(argv[3]), 0, &n, NULL);
	return 0;
}
