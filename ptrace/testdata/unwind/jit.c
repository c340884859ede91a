// Sleeps in code that it has made itself, in anonymous memory.
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

volatile int sink;

int main(void) {
	static const unsigned char code[] = {
		0x48, 0x83, 0xec, 0x18,			// sub rsp, 24
		0xb8, 34, 0, 0, 0, 0x0f, 0x05, // pause
		0x48, 0x83, 0xc4, 0x18, 0xc3,	// add rsp, 24; ret
	};
	void *p = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memcpy(p, code, sizeof code);
	printf("CODE=%p\nMAIN=%p\nREADY\n", p, (void *)main);
	fflush(stdout);
	((void (*)(void))p)();
	sink++;
	return 0;
}
