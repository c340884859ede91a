/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* The threads of one process as records: an iterator that is bound to it (6.1). Members are read through pointers that the
 * verifier knows, which cannot fault; only the CPUs that a thread may run on and numbers of a nested PID namespace are
 * copied. */
#include "kernel.h"

/* Set before loading. */
const volatile u32 ns_inum = 0;	   /* the reader's PID namespace; 0 is the first, where no number is translated */
const volatile u32 mask_bytes = 8; /* of a set of CPUs */

enum { maxMaskBytes = 1024 };

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
};

struct cpumask {
	unsigned long bits[1];
};

struct thread_info___threads {
	u32 cpu;
};

struct task_struct___threads {
	u32 __state;
	u32 exit_state;
	u32 flags;
	u32 policy;
	int prio;
	int static_prio;
	int pid;
	int tgid;
	char comm[16];
	u64 start_boottime;
	unsigned long nvcsw;
	unsigned long nivcsw;
	struct sched_entity se;
	struct cpumask cpus_mask;
	struct task_struct___threads *group_leader;
	struct thread_info___threads thread_info;
};

#pragma clang attribute pop

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

static long (*const bpf_seq_write)(struct seq_file *m, const void *data, u32 len) = (void *)127; /* 5.8 */

struct thread_record {
	u32 tgid;  /* in the reader's namespace; 0 if it has none there */
	u32 tid;   /* likewise */
	u32 state; /* __state, and exit_state from bit 16 on */
	u32 flags;
	u32 policy;
	s32 prio;
	s32 nice;
	u32 cpu;
	u64 run;   /* ns */
	u64 start; /* ns of the boot clock, of the first time namespace */
	u64 voluntary;
	u64 nonvoluntary;
	char comm[16];
	u8 cpus[maxMaskBytes]; /* mask_bytes of them are written */
};

enum { withoutMask = sizeof(struct thread_record) - maxMaskBytes };

struct {
	MAP_UINT(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	MAP_UINT(max_entries, 1);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct thread_record);
} scratch SEC(".maps");

INLINE u32 number(struct task_struct___threads *t)
{
	return ns_inum ? pid_in((struct task_struct *)t, ns_inum) : (u32)t->pid;
}

SEC("iter/task") int threads(struct bpf_iter__task *ctx)
{
	struct task_struct___threads *t = (void *)ctx->task;
	struct task_struct___threads *leader;
	struct thread_record *r;
	u32 zero = 0, size = mask_bytes;

	if (!t)
		return 0;
	r = bpf_map_lookup_elem(&scratch, &zero);
	leader = t->group_leader;
	if (!r || !leader || size > maxMaskBytes)
		return 0;
	r->tgid = number(leader);
	r->tid = number(t);
	r->state = (t->__state & 0xffff) | t->exit_state << 16;
	r->flags = t->flags;
	r->policy = t->policy;
	r->prio = t->prio;
	r->nice = t->static_prio - 120;
	r->cpu = t->thread_info.cpu;
	r->run = t->se.sum_exec_runtime;
	r->start = t->start_boottime;
	r->voluntary = t->nvcsw;
	r->nonvoluntary = t->nivcsw;
	__builtin_memcpy(r->comm, t->comm, sizeof(r->comm));
	bpf_probe_read_kernel(r->cpus, size, &t->cpus_mask);
	bpf_seq_write(ctx->meta->seq, r, withoutMask + size);
	return 0;
}
