// title MODE TEXT TIMES: overwrites its own command line, as daemons do, with
// TEXT so many times.
//   over   at the start of the arguments, NUL bytes up to their end
//   into   beyond the end of the arguments, on into the environment
//   zero   nothing but NUL bytes
//   none   no argument area at all (PR_SET_MM)
#include "t.h"
#include <linux/prctl.h>

static unsigned long stat_field(int want) {
	static char b[4096];
	int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
	ssize_t n = read(fd, b, sizeof b - 1);
	NEED(fd >= 0 && n > 0);
	close(fd);
	b[n] = 0;
	char *p = strrchr(b, ')') + 2, *save = NULL;
	int i = 3;
	for (char *w = strtok_r(p, " ", &save); w; w = strtok_r(NULL, " ", &save), i++)
		if (i == want) return strtoul(w, NULL, 10);
	NEED(!"a field of stat");
	return 0;
}

int main(int argc, char **argv) {
	NEED(argc >= 4);
	char mode = argv[1][0], title[4096] = "";
	for (int i = atoi(argv[3]); i > 0; i--) {
		NEED(strlen(title) + strlen(argv[2]) < sizeof title);
		strcat(title, argv[2]);
	}
	char *start = argv[0], *last = argv[argc - 1] + strlen(argv[argc - 1]);
	size_t room = (size_t)(last - start) + 1, len = strlen(title);
	t_stdin = 1;
	char *none[] = {"title", NULL};
	t_begin(1, none, "", NULL);
	prctl(PR_SET_NAME, "kworker/0:9-eve");
	switch (mode) {
	case 'o':
		NEED(len < room);
		memset(start, 0, room);
		memcpy(start, title, len);
		break;
	case 'i': // the kernel reads on into the environment when the arguments' last byte is not NUL
		NEED(len >= room);
		memcpy(start, title, len + 1);
		break;
	case 'z':
		memset(start, 0, room);
		break;
	case 'n': {
		struct prctl_mm_map m = {.start_code = stat_field(26), .end_code = stat_field(27), .start_data = stat_field(45), .end_data = stat_field(46),
			.start_brk = stat_field(47), .brk = (unsigned long)sbrk(0), .start_stack = stat_field(28), .arg_start = stat_field(48),
			.arg_end = stat_field(48), .env_start = stat_field(50), .env_end = stat_field(51), .exe_fd = (uint32_t)-1};
		if (prctl(PR_SET_MM, PR_SET_MM_MAP, &m, sizeof m, 0)) {
			printf("SKIP=a process cannot drop its own argument area here: %s\n", strerror(errno));
			fflush(stdout);
			return 0;
		}
		break;
	}
	default: return 2;
	}
	t_ready();
	t_hold(NULL, NULL, 0);
	return 0;
}
