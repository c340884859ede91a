// A function in a header of another folder.
__attribute__((noinline)) static long in_header(long n) {
	long r = pause(); // line of in_header
	return r + n;
}
