extern volatile int sink;

static __attribute__((noinline, cold)) void unlikely(int x)
{
	sink = x;
	sink = -x;
}

static inline int twice(int x)
{
	sink = x;
	return 2 * x;
}

__attribute__((noinline)) int other(int x)
{
	if (__builtin_expect(x == 12345, 0)) {
		sink = x / 7;
		unlikely(x);
		sink = x % 7;
	}
	return twice(x) + 1;
}
