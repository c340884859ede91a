/* Functions that main.c inlines into each other, three deep. */
static inline __attribute__((always_inline)) int innermost(int x)
{
	volatile int v = x;
	v = v * 3;
	return v + 1;
}

static inline __attribute__((always_inline)) int middle(int x)
{
	int sum = 0;
	for (int i = 0; i < x; i++)
		sum += innermost(i);
	return sum;
}

static __attribute__((noinline)) int in_header(int x)
{
	sink = x;
	return sink + middle(x);
}
