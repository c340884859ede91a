/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* The process list as records, in one walk over the kernel's own list of tasks.
 *
 * A group leader gives a whole record; any other thread a short one: what it adds to the time of its process. Members are
 * read through pointers that the verifier knows, which cannot fault; only per-CPU parts and numbers of a nested PID
 * namespace are copied. */
#include "kernel.h"

/* Set before loading. */
const volatile u32 cpus = 1;	  /* possible ones */
const volatile u32 ns_inum = 0;	  /* the reader's PID namespace; 0 is the first, where no number is translated */
const volatile u32 exact_rss = 0; /* sizes are per-CPU counters, and cpu_offset is known */

enum { maxOffsets = 1024 };

/* From a per-CPU pointer to the copy of each CPU, found by find_offsets. */
u64 cpu_offset[maxOffsets];

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
};

struct kuid {
	u32 val;
};

struct cred___list {
	struct kuid uid;
	struct kuid euid;
};

struct tty_struct;

struct signal_struct {
	int nr_threads;
	u64 sum_sched_runtime;
	struct tty_struct *tty;
};

struct cgroup;

struct css_set {
	struct cgroup *dfl_cgrp;
};

struct qstr___list {
	u32 hash, len; /* by themselves: the verifier of 6.1 knows only the first member of a union, which is those */
};

struct dentry___list {
	struct qstr___list d_name;
};

struct atomic_long {
	s64 counter;
};

struct percpu_counter {
	s64 count;
	s32 *counters;
};

/* Before 6.2. */
struct mm_rss_stat {
	struct atomic_long count[4];
};

struct mm_struct {
	unsigned long total_vm;
	unsigned long start_stack;
	struct file *exe_file;
	struct percpu_counter rss_stat[4];
};

struct mm_struct___61 {
	struct mm_rss_stat rss_stat;
};

struct thread_info___516 {
	u32 cpu;
};

struct task_struct___list {
	u32 __state;
	u32 exit_state;
	u32 flags;
	int static_prio;
	int pid;
	int tgid;
	char comm[16];
	u64 start_boottime;
	struct sched_entity se;
	struct task_struct___list *real_parent;
	struct task_struct___list *group_leader;
	struct cred___list *real_cred;
	struct signal_struct *signal;
	struct mm_struct *mm;
	struct css_set *cgroups;
	struct thread_info___516 thread_info;
};

/* Before 5.14, and before 5.16. */
struct task_struct___513 {
	long state;
};

struct task_struct___515 {
	u32 cpu;
};

struct bpf_array___list {
	void *pptrs[1];
};

#pragma clang attribute pop

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

static long (*const bpf_seq_write)(struct seq_file *m, const void *data, u32 len) = (void *)127;	/* 5.8 */
static void *(*const bpf_map_lookup_percpu_elem)(void *map, const void *key, u32 cpu) = (void *)195; /* 5.19 */

#define core_type_exists(type) __builtin_preserve_type_info(*(type *)0, 0)

struct thread_record {
	u32 size; /* of the record */
	u32 tgid; /* in the reader's namespace; 0 if it has none there */
	u32 tid;  /* likewise */
	u32 state; /* __state, and exit_state from bit 16 on */
	u64 run;  /* ns */
};

struct task_record {
	struct thread_record thread;
	u32 ppid;
	u32 threads;
	u32 uid, euid;
	u32 flags;
	s32 nice;
	u32 cpu;
	u32 pad;
	u64 start; /* ns of the boot clock, of the first time namespace */
	u64 ended; /* ns that threads got which have ended */
	u64 stack; /* where it began: another one after exec */
	s64 rss;   /* pages */
	u64 vms;   /* pages */
	char comm[16];
	/* What another path of the executable, another cgroup and another terminal would change. As they are: the verifier
	 * lets nobody calculate with pointers. */
	void *exe, *exe_parent;
	u64 exe_name, exe_hashed; /* not hashed: deleted */
	void *set, *group, *tty;
};

/* find_offsets compares a per-CPU map's pointer with the addresses of its elements: this works where the kernel tells no
 * address of its data. */
struct {
	MAP_UINT(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	MAP_UINT(max_entries, 1);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, u64);
} probe SEC(".maps");

SEC("raw_tp/offsets") int find_offsets(void *ctx __attribute__((unused)))
{
	void *map = &probe;
	u64 array = 0, base = 0;
	u32 zero = 0;

	bpf_probe_read_kernel(&array, sizeof(array), &map); /* as a number: nothing may be added to a map pointer */
	bpf_probe_read_kernel(&base, sizeof(base), (void *)(array + core_field_offset(struct bpf_array___list, pptrs)));
	for (u32 i = 0; i < cpus && i < maxOffsets; i++) {
		void *element = bpf_map_lookup_percpu_elem(&probe, &zero, i);
		u64 at = 0;

		if (!element)
			return 1;
		bpf_probe_read_kernel(&at, sizeof(at), &element);
		cpu_offset[i] = at - base;
	}
	return 0;
}

/* whole adds the per-CPU parts to what the kernel has summed. */
INLINE s64 whole(s64 summed, u64 counters)
{
	if (exact_rss)
		for (u32 i = 0; i < cpus && i < maxOffsets; i++) {
			s32 part = 0;

			bpf_probe_read_kernel(&part, sizeof(part), (void *)(counters + cpu_offset[i]));
			summed += part;
		}
	return summed < 0 ? 0 : summed;
}

/* Macros: the place in an array is asked of the kernel only where the index is a number in the source. The verifier of
 * 5.10 does not know the members of a typedef in an array. */
#define SUMMED(mm, kind)                                                                                                  \
	({                                                                                                                \
		s64 value = 0;                                                                                            \
		READ(value, ((struct mm_struct___61 *)mm)->rss_stat.count[kind].counter);                                 \
		value;                                                                                                    \
	})
#define PAGES(mm, kind)                                                                                                   \
	(core_type_exists(struct mm_rss_stat) ? whole(SUMMED(mm, kind), 0)                                                \
					      : whole(mm->rss_stat[kind].count, (u64)mm->rss_stat[kind].counters))

INLINE u32 number(struct task_struct___list *t)
{
	return ns_inum ? pid_in((struct task_struct *)t, ns_inum) : (u32)t->pid;
}

INLINE u32 state(struct task_struct___list *t)
{
	u32 s;

	if (core_field_exists(t->__state))
		s = t->__state;
	else
		s = ((struct task_struct___513 *)t)->state;
	return (s & 0xffff) | t->exit_state << 16;
}

/* fill tells whether t leads its group: then all of r is filled, else r->thread. */
INLINE bool fill(struct task_record *r, struct task_struct___list *t)
{
	struct task_struct___list *leader = t->group_leader;
	struct signal_struct *signal = t->signal;
	struct mm_struct *mm = t->mm;
	struct cred___list *cred = t->real_cred;

	r->thread.tid = number(t);
	r->thread.state = state(t);
	r->thread.run = t->se.sum_exec_runtime;
	if (t->pid != t->tgid) {
		r->thread.tgid = leader ? number(leader) : 0;
		r->thread.size = sizeof(r->thread);
		return false;
	}
	r->thread.tgid = r->thread.tid;
	r->thread.size = sizeof(*r);
	r->ppid = 0;
	if (t->real_parent) {
		struct task_struct___list *parent = t->real_parent->group_leader;

		if (parent)
			r->ppid = number(parent);
	}
	r->threads = signal ? signal->nr_threads : 0;
	r->ended = signal ? signal->sum_sched_runtime : 0;
	r->uid = cred ? cred->uid.val : 0;
	r->euid = cred ? cred->euid.val : 0;
	r->flags = t->flags;
	r->nice = t->static_prio - 120;
	if (core_field_exists(t->thread_info.cpu))
		r->cpu = t->thread_info.cpu;
	else
		r->cpu = ((struct task_struct___515 *)t)->cpu;
	r->pad = 0;
	r->start = t->start_boottime;
	__builtin_memcpy(r->comm, t->comm, sizeof(r->comm));
	r->tty = signal ? signal->tty : 0;
	r->set = r->group = 0;
	if (core_field_exists(t->cgroups) && t->cgroups) {
		r->set = t->cgroups;
		r->group = t->cgroups->dfl_cgrp;
	}
	r->exe = r->exe_parent = 0;
	r->exe_name = r->exe_hashed = 0;
	if (mm && mm->exe_file) {
		struct dentry *d = mm->exe_file->f_path.dentry;

		r->exe = d;
		if (d) {
			r->exe_parent = d->d_parent;
			r->exe_name = (u64)((struct dentry___list *)d)->d_name.len << 32 | ((struct dentry___list *)d)->d_name.hash;
			r->exe_hashed = d->d_hash.pprev != 0;
		}
	}
	if (!mm) {
		r->rss = 0;
		r->vms = r->stack = 0;
		return true;
	}
	r->rss = PAGES(mm, 0) + PAGES(mm, 1) + PAGES(mm, 3); /* files, anonymous, shared memory; 2 is swap */
	r->vms = mm->total_vm;
	r->stack = mm->start_stack;
	return true;
}

SEC("iter/task") int tasks(struct bpf_iter__task *ctx)
{
	struct task_struct___list *t = (void *)ctx->task;
	struct task_record r;

	if (!t)
		return 0;
	if (fill(&r, t))
		bpf_seq_write(ctx->meta->seq, &r, sizeof(r));
	else
		bpf_seq_write(ctx->meta->seq, &r.thread, sizeof(r.thread));
	return 0;
}
