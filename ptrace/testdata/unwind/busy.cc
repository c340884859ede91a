#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>
#include <string>
#include <vector>

static std::map<std::string, std::vector<int>> table;

static int depth(int n, const std::function<int(int)> &leaf) { return n ? depth(n - 1, leaf) + 1 : leaf(n); }

int main() {
	puts("READY");
	fflush(stdout);
	for (unsigned i = 0;; i++) {
		depth(12, [i](int) {
			auto &v = table[std::to_string(i % 1000)];
			v.push_back(i);
			std::sort(v.begin(), v.end(), [](int a, int b) { return std::to_string(a) < std::to_string(b); });
			if (v.size() > 100) v.clear();
			return (int)v.size();
		});
	}
}
