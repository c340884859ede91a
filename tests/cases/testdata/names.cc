// names: what C++ makes of functions: a template's call operator, an anonymous
// namespace, a lambda as a function pointer, and a part that the compiler moved away.
#include <cstdio>
#include <cstdlib>
#include <csignal>
#include <string>
#include <sys/prctl.h>
#include <unistd.h>

namespace shop {
namespace {
__attribute__((noinline)) long hidden(long n) { return pause() + n; }
} // namespace

__attribute__((noinline, cold)) long seldom(long n) {
	volatile long keep = n;
	long r = hidden(n);
	return r + keep;
}

__attribute__((noinline)) long often(long n) {
	volatile long keep = n;
	if (__builtin_expect(n > 0, 0)) {
		std::printf("READY=1\n"), std::fflush(stdout);
		keep = seldom(n);
		keep = keep + 2;
	}
	return keep;
}

template <typename T> struct Crate {
	T content;
	__attribute__((noinline)) T operator()(const std::string &by, T (*work)(T)) {
		volatile T keep = content;
		T r = work(content + static_cast<T>(by.size()));
		return r + keep;
	}
};
} // namespace shop

int main(int argc, char **) {
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	std::printf("PID=%d\nTID=%d\n", static_cast<int>(getpid()), static_cast<int>(getpid()));
	shop::Crate<long> crate{argc};
	return static_cast<int>(crate("somebody", [](long n) {
		volatile long keep = n;
		long r = shop::often(n);
		return r + keep;
	}));
}
