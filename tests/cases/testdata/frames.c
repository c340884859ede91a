// frames: one thread in each of the functions of frames.S.
#include "t.h"

void grand_a(void), grand_b(void), ends_in_call(void), neighbour(void), lists(void);
extern char list_start[];

static atomic_int begun;

#define THREAD(name, call)                          \
	static void *run_##name(void *arg) {             \
		printf("TID_" #name "=%d\n", (int)t_tid()); \
		atomic_fetch_add(&begun, 1);                 \
		call(); /* line of run_##name */             \
		return arg;                                  \
	}
THREAD(A, grand_a)
THREAD(B, grand_b)
THREAD(CALL, ends_in_call)
THREAD(LIST, lists)

int main(int argc, char **argv) {
	t_begin(argc, argv, "Threads in odd places of their functions.", NULL);
	printf("LIST=0x%016lx\nNEIGHBOUR=0x%016lx\n", (unsigned long)(uintptr_t)list_start, (unsigned long)(uintptr_t)neighbour);
	t_thread("before", -1, run_A, NULL);
	t_thread("after", -1, run_B, NULL);
	t_thread("call", -1, run_CALL, NULL);
	t_thread("list", -1, run_LIST, NULL);
	while (atomic_load(&begun) < 4) t_sleep_ms(5);
	t_ready();
	t_hold(NULL, NULL, 0);
	return 0;
}
