// Stops in a known place, down a known chain of calls. The first argument says which.
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>
#include <pthread.h>

#define NOINLINE __attribute__((noinline, noclone))

volatile int sink;

#define FACT(name, value) printf(name "=%p\n", (void *)(value))

static void ready(void) {
	printf("READY\n");
	fflush(stdout);
}

NOINLINE void stop_here(void) {
	ready();
	pause();
	sink++;
}

NOINLINE void deep(int n) {
	volatile char frame[24];
	frame[n] = 1;
	if (n == 0)
		stop_here();
	else
		deep(n - 1);
	sink += frame[n];
}

NOINLINE void middle(void (*f)(void)) {
	f();
	sink++;
}

NOINLINE void outer(void (*f)(void)) {
	middle(f);
	sink++;
}

NOINLINE static void handler(int sig, siginfo_t *info, void *context) {
	(void)sig;
	(void)info;
	FACT("INTERRUPTED", ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP]);
	stop_here();
	sink++;
}

static void catch(int sig, int flags) {
	struct sigaction sa = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | flags};
	sigaction(sig, &sa, NULL);
}

// The first instruction of fault_first is the one that faults: its address alone
// belongs to it, the byte before to its neighbour.
void neighbour(void);
void fault_first(void);
asm(".text\n.globl neighbour\n.type neighbour,@function\nneighbour: .cfi_startproc\n nop\n nop\n .cfi_endproc\n.size neighbour,.-neighbour\n"
    ".globl fault_first\n.type fault_first,@function\nfault_first: .cfi_startproc\n ud2\n ret\n .cfi_endproc\n.size fault_first,.-fault_first\n");

NOINLINE void call_null(void) {
	void (*volatile f)(void) = 0;
	f();
	sink++;
}

// Registers a handler with a restorer of its own, which no table describes.
void own_restorer(void);
asm(".text\n.balign 16\n.globl own_restorer\n.type own_restorer,@function\nown_restorer:\n mov $15, %rax\n syscall\n.size own_restorer,.-own_restorer\n");

static void catch_raw(int sig) {
	struct { void *handler; unsigned long flags; void (*restorer)(void); unsigned long mask; } sa = {
		handler, SA_SIGINFO | 0x04000000 /* SA_RESTORER */, own_restorer, 0};
	syscall(SYS_rt_sigaction, sig, &sa, NULL, 8);
}

// Ends with the call: the return address is the first byte of the next function.
void ends_in_call(void);
asm(".text\n.globl ends_in_call\n.type ends_in_call,@function\nends_in_call: .cfi_startproc\n sub $8, %rsp\n .cfi_def_cfa_offset 16\n call stop_here\n"
    " .cfi_endproc\n.size ends_in_call,.-ends_in_call\n"
    ".globl after_the_call\n.type after_the_call,@function\nafter_the_call: .cfi_startproc\n ud2\n .cfi_endproc\n.size after_the_call,.-after_the_call\n");

// Frames without any table.
#define BARE(name, code) \
	void name(void); \
	asm(".text\n.balign 16\n.globl " #name "\n.type " #name ",@function\n" #name ":\n" code "\n.size " #name ",.-" #name "\n")
BARE(bare_before_push, "mov $34, %eax\n syscall\n push %rbp\n mov %rsp, %rbp\n pop %rbp\n ret");
BARE(bare_at_return, "push %rbp\n mov %rsp, %rbp\n pop %rbp\n mov $34, %eax\n syscall\n ret");
BARE(bare_trampoline, "sub $40, %rsp\n push %rbx\n call *%rdi\n mov %eax, %ecx\n test %ecx, %ecx\n js 1f\n1: pop %rbx\n vzeroupper\n add $40, %rsp\n ret");
BARE(bare_with_frame, "push %rbp\n mov %rsp, %rbp\n sub $48, %rsp\n push %rbx\n mov $34, %eax\n syscall\n 1: jmp 1b");

// 8 pushed registers, one of them moved, by tables only.
void saves_all(void);
asm(".text\n.globl saves_all\n.type saves_all,@function\nsaves_all: .cfi_startproc\n"
    " push %rbx\n .cfi_adjust_cfa_offset 8\n .cfi_rel_offset %rbx, 0\n push %r12\n .cfi_adjust_cfa_offset 8\n .cfi_rel_offset %r12, 0\n"
    " mov %rbp, %rbx\n .cfi_register %rbp, %rbx\n mov $0x1234, %ebp\n sub $8, %rsp\n .cfi_adjust_cfa_offset 8\n call stop_here\n"
    " mov %rbx, %rbp\n .cfi_restore %rbp\n add $8, %rsp\n .cfi_adjust_cfa_offset -8\n pop %r12\n .cfi_adjust_cfa_offset -8\n pop %rbx\n .cfi_adjust_cfa_offset -8\n ret\n .cfi_endproc\n"
    ".size saves_all,.-saves_all\n");

NOINLINE void needs_rbp(int n) { // its frame is found through RBP alone
	char *p = __builtin_alloca(n);
	p[n - 1] = 1;
	sink += (int)p[n - 1];
	middle(saves_all);
	sink += (int)p[0];
}

static void *on_thread(void *f) {
	outer((void (*)(void))f);
	return NULL;
}

static void alternate(void) {
	static char stack[64 << 10] __attribute__((aligned(16)));
	stack_t ss = {.ss_sp = stack, .ss_size = sizeof stack};
	sigaltstack(&ss, NULL);
}

NOINLINE static void run(void (*f)(void)) { outer(f); sink++; }

NOINLINE static void trampoline(void) {
	ready();
	((void (*)(void (*)(void)))(void *)bare_trampoline)(stop_here);
	sink++;
}

NOINLINE static void announced(void (*f)(void)) {
	ready();
	f();
	sink++;
}
static void before_push(void) { announced(bare_before_push); sink++; }
static void at_return(void) { announced(bare_at_return); sink++; }
static void with_frame(void) { announced(bare_with_frame); sink++; }
static void recurse(void) { deep(10); sink++; }
static void realigned(void) { needs_rbp(100); sink++; }

int main(int argc, char **argv) {
	const char *what = argc > 1 ? argv[1] : "deep";
	FACT("MAIN", main);
	FACT("STOP_HERE", stop_here);
	FACT("BARE_BEFORE_PUSH", bare_before_push);
	FACT("PUTS", puts);
	if (!strcmp(what, "deep")) run(recurse);
	else if (!strcmp(what, "many")) deep(20), sink++;
	else if (!strcmp(what, "signal")) catch(SIGILL, 0), run(fault_first);
	else if (!strcmp(what, "altstack")) alternate(), catch(SIGILL, SA_ONSTACK), run(fault_first);
	else if (!strcmp(what, "restorer")) catch_raw(SIGILL), run(fault_first);
	else if (!strcmp(what, "null")) catch(SIGSEGV, 0), run(call_null);
	else if (!strcmp(what, "noreturn")) run(ends_in_call);
	else if (!strcmp(what, "before_push")) run(before_push);
	else if (!strcmp(what, "at_return")) run(at_return);
	else if (!strcmp(what, "with_frame")) run(with_frame);
	else if (!strcmp(what, "trampoline")) run(trampoline);
	else if (!strcmp(what, "realigned")) run(realigned);
	else if (!strcmp(what, "thread") || !strcmp(what, "zombie")) {
		pthread_t t;
		pthread_create(&t, NULL, on_thread, stop_here);
		if (!strcmp(what, "zombie")) pthread_exit(NULL);
		pthread_join(t, NULL);
	}
	return 0;
}
