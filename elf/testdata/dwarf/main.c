/* The program most fixtures are made of. It needs no library. */
volatile int sink;

#include "sub/inc.h"

int other(int x);

static inline __attribute__((always_inline)) int outer(int x)
{
	int r = middle(x);
	if (__builtin_expect(r > 1000, 0)) {
		sink = r;
		__builtin_trap();
	}
	return r + middle(x + 1);
}

__attribute__((noinline)) int not_inlined(int x)
{
	return outer(x) + in_header(x);
}

__attribute__((noinline)) int never_called(int x)
{
	return outer(x) * 2;
}

void _start(void)
{
	for (;;)
		sink = not_inlined(other(sink));
}
