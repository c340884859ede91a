// threads PID LOOPS [stat]: the limit for the threads of one process: stat and status of
// each, and wchan and syscall of those that do not run, unless only stat is asked for.
#include "util.h"

struct rec {
	int tid, prio, nice, cpu, policy;
	char state, comm[17], wchan[48], affinity[64];
	uint64_t utime, stime, start, voluntary, nonvoluntary;
	long call;
};

static struct rec *recs;
static long n, cap;
static char task[64];
static int half;

static uint64_t tab(const char *p) {
	while (*p == ' ' || *p == '\t') p++;
	return num(&p);
}

static int one(int dir, const char *name, struct rec *r) {
	char path[64], b[8192];
	memset(r, 0, sizeof *r);
	const char *np = name;
	r->tid = (int)num(&np);
	long k = slurp(dir, join(path, name, "stat"), b, sizeof b);
	const char *open = k > 0 ? memchr(b, '(', (size_t)k) : NULL, *end = open ? memrchr(b, ')', (size_t)k) : NULL;
	if (!end) return -1;
	long cl = end - open - 1 > 16 ? 16 : end - open - 1;
	memcpy(r->comm, open + 1, (size_t)cl);
	r->state = end[2];
	const char *p = end + 4;
	uint64_t f[40];
	for (int i = 0; i < 38; i++) {
		int neg = *p == '-';
		p += neg;
		f[i] = num(&p);
		if (neg) f[i] = -f[i];
		p++;
	}
	r->utime = f[10]; r->stime = f[11]; r->prio = (int)f[14]; r->nice = (int)f[15]; r->start = f[18]; r->cpu = (int)f[35]; r->policy = (int)f[37];
	k = slurp(dir, join(path, name, "status"), b, sizeof b);
	if (k <= 0) return -1;
	const char *nl;
	for (const char *s = b, *e = b + k; s < e && (nl = memchr(s, '\n', (size_t)(e - s))); s = nl + 1) {
		if (*s == 'C' && !memcmp(s, "Cpus_allowed_list:", 18)) {
			long l = nl - s - 19 > 63 ? 63 : nl - s - 19;
			memcpy(r->affinity, s + 19, (size_t)l);
		} else if (*s == 'v') r->voluntary = tab(s + 24);
		else if (*s == 'n' && !memcmp(s, "nonv", 4)) r->nonvoluntary = tab(s + 27);
	}
	if (r->state == 'R' || half) return 0;
	k = slurp(dir, join(path, name, "wchan"), b, sizeof b);
	if (k > 0) memcpy(r->wchan, b, (size_t)(k > 47 ? 47 : k));
	k = slurp(dir, join(path, name, "syscall"), b, sizeof b);
	const char *c = b;
	r->call = k > 0 && is_num(b) ? (long)num(&c) : -1;
	return 0;
}

static void scan(void) {
	static char d[1 << 18];
	n = 0;
	int dir = open(task, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0) { perror(task); exit(1); }
	for (long g; (g = syscall(SYS_getdents64, dir, d, sizeof d)) > 0;)
		for (char *p = d; p < d + g; p += ((struct dent *)p)->len) {
			struct dent *x = (void *)p;
			if (!is_num(x->name)) continue;
			if (n == cap) recs = realloc(recs, (size_t)(cap = cap * 2 + 1024) * sizeof *recs);
			if (!one(dir, x->name, &recs[n])) n++;
		}
	close(dir);
}

int main(int argc, char **argv) {
	if (argc != 3 && argc != 4) return 2;
	half = argc == 4;
	snprintf(task, sizeof task, "/proc/%s/task", argv[1]);
	job(scan, atoi(argv[2]), 0, &n, NULL);
	return 0;
}
