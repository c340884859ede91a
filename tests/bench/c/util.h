// What the limit programs share: clocks, the report of a job and getdents64.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static inline double cpu_ms(void) {
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static inline double now_s(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int cmp_double(const void *a, const void *b) {
	double x = *(const double *)a, y = *(const double *)b;
	return x < y ? -1 : x > y;
}

// job runs f once to warm up and then loops times, one each every_ms (0: at once),
// and prints the median of the CPU time: "@ cpu=MS n=N joined=N".
static inline void job(void (*f)(void), int loops, long every_ms, const long *n, const long *joined) {
	double *c = calloc((size_t)loops, sizeof *c), due = now_s();
	for (int i = -1; i < loops; i++) {
		double left = due - now_s();
		if (left > 0) {
			struct timespec t = {(time_t)left, (long)((left - (double)(time_t)left) * 1e9)};
			nanosleep(&t, NULL);
		}
		due = now_s() + (double)every_ms / 1e3;
		double from = cpu_ms();
		f();
		if (i >= 0) c[i] = cpu_ms() - from;
	}
	qsort(c, (size_t)loops, sizeof *c, cmp_double);
	printf("@ cpu=%.4f n=%ld joined=%ld\n", loops % 2 ? c[loops / 2] : (c[loops / 2 - 1] + c[loops / 2]) / 2, *n, joined ? *joined : 0L);
}

struct dent {
	uint64_t ino;
	int64_t off;
	unsigned short len;
	unsigned char type;
	char name[];
};

static inline int is_num(const char *s) { return *s >= '0' && *s <= '9'; }

static inline uint64_t num(const char **p) {
	uint64_t v = 0;
	const char *s = *p;
	while (is_num(s)) v = v * 10 + (uint64_t)(*s++ - '0');
	*p = s;
	return v;
}

// join writes PID/file into out.
static inline char *join(char *out, const char *pid, const char *file) {
	char *o = out;
	while (*pid) *o++ = *pid++;
	*o++ = '/';
	while ((*o = *file++)) o++;
	return out;
}

static inline long slurp(int dir, const char *path, char *buf, size_t cap) {
	int fd = openat(dir, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) return -1;
	long n = read(fd, buf, cap);
	close(fd);
	return n;
}
