// hugetlb: pages that the kernel counts in no RSS, private and shared, beside
// ordinary ones.
#include "t.h"

static char *touched(size_t n, int flags) {
	char *p = mmap(NULL, n, PROT_READ | PROT_WRITE, flags, -1, 0);
	if (p == MAP_FAILED) return NULL;
	memset(p, 1, n);
	return p;
}

int main(int argc, char **argv) {
	(void)argc;
	t_stdin = 1;
	t_begin(1, argv, "", NULL);
	size_t page = 2 << 20, normal = 8 << 20;
	char *a = touched(2 * page, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | 21 << 26 /* MAP_HUGE_2MB */);
	char *b = a ? touched(2 * page, MAP_SHARED | MAP_ANONYMOUS | MAP_HUGETLB | 21 << 26) : NULL;
	if (!b) {
		printf("SKIP=no four huge pages of 2 MiB are free (vm.nr_hugepages; PROCINSH_TEST_HUGEPAGES=1 reserves them): %s\n", strerror(errno));
		fflush(stdout);
		return 0;
	}
	char *c = mmap(NULL, normal, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	NEED(c != MAP_FAILED);
	memset(c, 1, normal);
	printf("PRIVATE=%p\nSHARED=%p\nHUGE_BYTES=%zu\nNORMAL=%p\nNORMAL_BYTES=%zu\n", (void *)a, (void *)b, 2 * page, (void *)c, normal);
	t_ready();
	t_hold(NULL, NULL, 0);
	return 0;
}
