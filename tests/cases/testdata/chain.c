// chain: three functions, each called by the next, the innermost waiting.
#include "blocked.h"

#ifdef OTHER // the same program with other names
#define inner other_inner
#define outer other_outer
#endif

__attribute__((noinline)) static long inner(long n) {
	long r = pause(); // line of inner
	return r + n;
}

__attribute__((noinline)) static long outer(long n) {
	volatile long keep = n;
	long r = inner(n + 1); // line of outer
	return r + keep;
}

long blocked_run(void) {
	volatile long keep = 1;
	long r = outer(keep); // line of blocked_run
	return r + keep;
}

int main(int argc, char **argv) { return blocked_main(argc, argv, "A chain of functions."); }
