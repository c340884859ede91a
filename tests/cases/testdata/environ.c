// environ FILE: runs on with exactly the environment that FILE holds: strings
// that each end in NUL, in order, whatever they look like.
#include "t.h"

int main(int argc, char **argv) {
	if (argc == 2) {
		int fd = open(argv[1], O_RDONLY | O_CLOEXEC);
		struct stat st;
		NEED(fd >= 0 && !fstat(fd, &st));
		char *b = malloc((size_t)st.st_size + 1);
		size_t have = 0;
		for (ssize_t n; (n = read(fd, b + have, (size_t)st.st_size - have)) > 0;) have += (size_t)n;
		char **env = calloc((size_t)st.st_size + 1, sizeof *env), *none[] = {argv[0], NULL};
		size_t n = 0;
		for (char *p = b; p < b + have; p += strlen(p) + 1) env[n++] = p;
		execve("/proc/self/exe", none, env);
		NEED(!"execve");
	}
	t_stdin = 1;
	t_begin(1, argv, "", NULL);
	t_ready();
	t_hold(NULL, NULL, 0);
	return 0;
}
