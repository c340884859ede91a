// allocate: memory that grows and is given back, a saw.
#include "t.h"

static struct t_option options[] = {
	{"mib", "the top of the saw", 128, 1, 65536},
	{"steps", "steps up to the top", 16, 1, 4096},
	{"step-ms", "time between two steps", 250, 1, 60000},
	{NULL, NULL, 0, 0, 0},
};

static char *area;
static size_t size, step, have;

static void tick(void) {
	if (have == size) {
		NEED(!madvise(area, size, MADV_DONTNEED));
		have = 0;
		return;
	}
	size_t n = have + step > size ? size - have : step;
	memset(area + have, 0xa5, n);
	have += n;
}

static void line(char *s) {
	if (!strcmp(s, "report")) printf("TOUCHED_BYTES=%zu\nDONE=1\n", have);
}

int main(int argc, char **argv) {
	t_begin(argc, argv, "Memory that grows step by step and is given back at the top. \"report\" on standard input prints what is touched.", options);
	size = (size_t)options[0].value << 20;
	step = (size / (size_t)options[1].value + 4095) & ~(size_t)4095;
	area = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	NEED(area != MAP_FAILED);
	NEED(!madvise(area, size, MADV_NOHUGEPAGE) || errno == EINVAL); // so that RSS is what was touched
	printf("AREA=0x%016lx\nAREA_BYTES=%zu\nSTEP_BYTES=%zu\n", (unsigned long)area, size, step);
	t_ready();
	t_hold(line, tick, options[2].value);
	return 0;
}
