// files: a function of this file calls one of a header.
#include "../blocked.h"
#include "sub/inside.h"

__attribute__((noinline)) static long in_main_file(long n) {
	volatile long keep = n;
	long r = in_header(n + 1); // line of in_main_file
	return r + keep;
}

long blocked_run(void) {
	volatile long keep = 1;
	long r = in_main_file(keep); // line of blocked_run
	return r + keep;
}

int main(int argc, char **argv) { return blocked_main(argc, argv, "Functions of two files."); }
