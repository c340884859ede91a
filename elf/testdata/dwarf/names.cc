/* Names in C++: with a linkage name, and without one behind namespaces and classes. */
extern "C" volatile int sink;
volatile int sink;

namespace shop {

struct Till {
	int total;
	inline __attribute__((always_inline)) int add(int x)
	{
		sink = x;
		return total += x;
	}
};

namespace {
struct Secret {
	int key;
	inline __attribute__((always_inline)) int open(int x)
	{
		sink = key ^ x;
		return sink;
	}
};

inline __attribute__((always_inline)) int hidden(int x)
{
	sink = x + 1;
	Secret s{x};
	return s.open(3);
}
} // namespace

template <typename T> __attribute__((noinline)) T pay(T x)
{
	Till t{0};
	auto twice = [&](T y) __attribute__((always_inline)) {
		sink = y;
		return t.add(y) * 2;
	};
	return twice(x) + hidden(x);
}

} // namespace shop

static inline __attribute__((always_inline)) int local(int x)
{
	struct Inside {
		__attribute__((always_inline)) static int run(int y)
		{
			sink = y;
			return y + 1;
		}
	};
	return Inside::run(x);
}

extern "C" __attribute__((used)) void _start()
{
	for (;;)
		sink = shop::pay<int>(local(sink));
}
