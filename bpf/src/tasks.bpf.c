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

/* Where the kernel has all memory mapped, and how its page tables are: tried by find_memory. */
u64 memory_base = 0; /* 0: not known, and no command line is read */
u64 frame_mask = 0;  /* of an entry: the bits of the address */
u32 top_shift = 0;   /* of an address: where the index of the uppermost table begins */
u32 candidate = 0;   /* GiB below the caller's uppermost table */
u64 sample_at = 0, sample = 0; /* something that the caller has in its memory */

/* Marks and command lines are read of processes with number % slices == slice; 0 slices: of none. */
u32 slices = 0, slice = 0;

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
	void *pgd;
	unsigned long total_vm;
	unsigned long start_stack;
	unsigned long arg_start, arg_end, env_start, env_end;
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
	u32 command; /* bytes of the command line behind the record, and flags */
	u64 start; /* ns of the boot clock, of the first time namespace */
	u64 ended; /* ns that threads got which have ended */
	u64 stack; /* where it began: another one after exec */
	s64 rss;   /* pages */
	u64 vms;   /* pages */
	char comm[16];
};

struct marked_record {
	struct task_record task;
	/* What another path of the executable, another cgroup and another terminal would change. As they are: the verifier
	 * lets nobody calculate with pointers. */
	void *exe, *exe_parent, *exe_mount;
	u32 exe_name, exe_length;
	u64 exe_hashed; /* not hashed: deleted */
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

/* Macros: the place in an array is asked of the kernel only where the index is a number in the source. The verifier of
 * 5.10 does not know the members of a typedef in an array. */
#define SUMMED(mm, kind)                                                                                                  \
	({                                                                                                                \
		s64 value = 0;                                                                                            \
		READ(value, ((struct mm_struct___61 *)mm)->rss_stat.count[kind].counter);                                 \
		value < 0 ? 0 : value;                                                                                    \
	})
#define COUNTERS(mm, kind) ((u64)mm->rss_stat[kind].counters)

INLINE s32 part_of(u64 counters, u32 cpu)
{
	s32 part = 0;

	bpf_probe_read_kernel(&part, sizeof(part), (void *)(counters + cpu_offset[cpu]));
	return part;
}

/* resident sums the pages of files, anonymous ones and those of shared memory: kinds 0, 1 and 3, 2 is swap. */
INLINE s64 resident(struct mm_struct *mm)
{
	s64 files, anonymous, shared;
	u64 first, second, fourth;

	if (core_type_exists(struct mm_rss_stat))
		return SUMMED(mm, 0) + SUMMED(mm, 1) + SUMMED(mm, 3);
	files = mm->rss_stat[0].count;
	anonymous = mm->rss_stat[1].count;
	shared = mm->rss_stat[3].count;
	if (exact_rss) {
		first = COUNTERS(mm, 0);
		second = COUNTERS(mm, 1);
		fourth = COUNTERS(mm, 3);
		for (u32 i = 0; i < cpus && i < maxOffsets; i++) {
			s32 parts[4] = {};

			/* Since 6.6 those of one CPU stand side by side. */
			if (second == first + 4 && fourth == first + 12) {
				bpf_probe_read_kernel(parts, sizeof(parts), (void *)(first + cpu_offset[i]));
			} else {
				parts[0] = part_of(first, i);
				parts[1] = part_of(second, i);
				parts[3] = part_of(fourth, i);
			}
			files += parts[0];
			anonymous += parts[1];
			shared += parts[3];
		}
	}
	return (files < 0 ? 0 : files) + (anonymous < 0 ? 0 : anonymous) + (shared < 0 ? 0 : shared);
}

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
	r->command = 0;
	r->start = t->start_boottime;
	__builtin_memcpy(r->comm, t->comm, sizeof(r->comm));
	if (!mm) {
		r->rss = 0;
		r->vms = r->stack = 0;
		return true;
	}
	r->rss = resident(mm);
	r->vms = mm->total_vm;
	r->stack = mm->start_stack;
	return true;
}

/* mark_task fills what follows the task of r. */
INLINE void mark_task(struct marked_record *r, struct task_struct___list *t)
{
	struct mm_struct *mm = t->mm;

	r->tty = t->signal ? t->signal->tty : 0;
	r->set = r->group = 0;
	if (core_field_exists(t->cgroups) && t->cgroups) {
		r->set = t->cgroups;
		r->group = t->cgroups->dfl_cgrp;
	}
	r->exe = r->exe_parent = r->exe_mount = 0;
	r->exe_name = r->exe_length = 0;
	r->exe_hashed = 0;
	if (mm && mm->exe_file) {
		struct dentry *d = mm->exe_file->f_path.dentry;

		r->exe = d;
		r->exe_mount = mm->exe_file->f_path.mnt;
		if (d) {
			r->exe_parent = d->d_parent;
			r->exe_name = ((struct dentry___list *)d)->d_name.hash;
			r->exe_length = ((struct dentry___list *)d)->d_name.len;
			r->exe_hashed = d->d_hash.pprev != 0;
		}
	}
}

enum {
	maxCommand = 4096,	/* of a command line in the list; one byte more tells that it is cut */
	commandKnown = 1 << 16, /* in task_record.command */
	commandTitle = 1 << 17, /* it ends with its first NUL */
	pageSize = 4096,
	twoPages = 2 * pageSize - 1,
	allPages = 4 * pageSize - 1,
};

struct scratch_record {
	struct marked_record marked;
	char command[4 * pageSize]; /* more than is written: each index and size is cut to two pages for the verifier */
};

struct {
	MAP_UINT(type, BPF_MAP_TYPE_ARRAY);
	MAP_UINT(max_entries, 1);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct scratch_record);
} scratch SEC(".maps");

/* Of an entry, arch/x86/include/asm/pgtable_types.h. */
enum { entryPresent = 1 << 0, entryUser = 1 << 2, entryHuge = 1 << 7, entrySpecial = 1 << 9, lowestShift = 12, indexBits = 9 };

/* page_at returns where the kernel has mapped the page with addr, and 0 when the page is not in memory. It takes no lock and
 * can be wrong when the page is taken away meanwhile: who has copied from it asks again. */
NOINLINE u64 page_at(u64 tables, u64 addr)
{
	u32 shift = top_shift;

	for (int i = 0; i < 5; i++) {
		u64 entry = 0, frame;

		bpf_probe_read_kernel(&entry, sizeof(entry), (void *)(tables + ((addr >> (shift & 63)) & 511) * sizeof(entry)));
		if ((entry & (entryPresent | entryUser)) != (entryPresent | entryUser))
			return 0;
		frame = entry & frame_mask;
		if (shift == lowestShift)
			return entry & entrySpecial ? 0 : memory_base + frame;
		if (entry & entryHuge) {
			u64 inside = (1ULL << (shift & 63)) - 1;

			return memory_base + (frame & ~inside) + (addr & inside & ~(u64)(pageSize - 1));
		}
		tables = memory_base + frame;
		shift -= indexBits;
	}
	return 0;
}

SEC("raw_tp/memory") int find_memory(void *ctx __attribute__((unused)))
{
	struct task_struct___list *t = bpf_get_current_task();
	struct mm_struct *mm = NULL;
	u64 tables = 0, page, value = 0;

	READ(mm, t->mm);
	READ(tables, mm->pgd);
	/* The mapping begins at a multiple of what an entry of the third table from below covers. */
	memory_base = (tables & ~((1ULL << 30) - 1)) - ((u64)candidate << 30);
	page = page_at(tables, sample_at);
	if (page)
		bpf_probe_read_kernel(&value, sizeof(value), (void *)(page + (sample_at & (pageSize - 1))));
	if (value == sample)
		return 0;
	memory_base = 0;
	return 1;
}

/* copy reads n bytes of a process, at most maxCommand + 1, and tells whether all of them were in memory. */
INLINE bool copy(struct scratch_record *r, u64 tables, u64 addr, u64 n)
{
	u64 done = 0;

	for (int i = 0; i < 2 && done < n; i++) {
		u64 in = (addr + done) & (pageSize - 1), part = n - done, page = page_at(tables, addr + done), at = done;

		if (part > pageSize - in)
			part = pageSize - in;
		if (!page)
			return false;
		forget(at);
		forget(part);
		at &= twoPages;
		part &= twoPages;
		if (bpf_probe_read_kernel(r->command + at, part, (void *)(page + in)) || page_at(tables, addr + done) != page)
			return false;
		done += part;
	}
	return done == n;
}

/* command reads what /proc/PID/cmdline would give, as far as that is in memory.
 * Source: get_mm_cmdline, fs/proc/base.c. */
INLINE void command(struct scratch_record *r, struct task_struct___list *t)
{
	struct mm_struct *mm = t->mm;
	u64 start, end, environment, n, whole, tables = 0, before = 0, after = 0;
	u32 title = 0;
	char last = 0;

	if (!mm || t->flags & PF_KTHREAD)
		return;
	READ(before, t->mm);
	READ(tables, mm->pgd);
	start = mm->arg_start;
	end = mm->arg_end;
	environment = mm->env_start == end && mm->env_end > end ? mm->env_end : end;
	n = whole = end > start ? end - start : 0;
	if (n > maxCommand + 1)
		n = maxCommand + 1;
	if (n) {
		if (!copy(r, tables, start, n))
			return;
		if (n < whole) {
			u64 page = page_at(tables, end - 1);

			if (!page || bpf_probe_read_kernel(&last, 1, (void *)(page + ((end - 1) & (pageSize - 1)))) ||
			    page_at(tables, end - 1) != page)
				return;
		} else {
			last = r->command[(n - 1) & twoPages];
		}
		if (last) { /* overwritten by the program, maybe on into the environment */
			title = commandTitle;
			n = environment - start;
			if (n > maxCommand)
				n = maxCommand;
			if (!copy(r, tables, start, n))
				return;
		}
	}
	/* A process gives up its memory before its page tables. */
	READ(after, t->mm);
	if (after == before)
		r->marked.task.command = n | commandKnown | title;
}

SEC("iter/task") int tasks(struct bpf_iter__task *ctx)
{
	struct task_struct___list *t = (void *)ctx->task;
	struct scratch_record *r;
	u32 zero = 0, size;

	if (!t)
		return 0;
	r = bpf_map_lookup_elem(&scratch, &zero);
	if (!r)
		return 0;
	if (!fill(&r->marked.task, t)) {
		bpf_seq_write(ctx->meta->seq, r, sizeof(struct thread_record));
		return 0;
	}
	size = sizeof(struct task_record);
	if (slices && (u32)t->pid % slices == slice) {
		mark_task(&r->marked, t);
		if (memory_base)
			command(r, t);
		size = sizeof(struct marked_record) + (((u16)r->marked.task.command + 7) & ~7);
	}
	forget(size);
	size &= allPages;
	r->marked.task.thread.size = size;
	bpf_seq_write(ctx->meta->seq, r, size);
	return 0;
}
