// hold: does nothing. Its arguments and environment are what is looked at, so it
// reads none of them.
#include "t.h"

int main(int argc, char **argv) {
	(void)argc;
	t_stdin = 1;
	char *none[] = {argv[0] ? argv[0] : "hold", NULL};
	t_begin(1, none, "Holds still.", NULL);
	t_ready();
	t_hold(NULL, NULL, 0);
	return 0;
}
