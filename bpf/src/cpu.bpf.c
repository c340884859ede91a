/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Which process ran on which CPU, and for how long.
 *
 * At a switch the time that the leaving thread got is added to its process in a table of the CPU, of two banks. Time is
 * se.sum_exec_runtime, which the scheduler has just brought up to date: no clock is read, and sums equal
 * /proc/PID/schedstat. User space turns the epoch, waits until no program can still be in the old bank, and reads it.
 * What a thread has got that is still on its CPU is in the CPU's cell. */
#include "kernel.h"

/* Set before loading. */
enum { SLOTS = 64 };		     /* of one bank, a power of two; at most, as in cpu.go */
const volatile u32 last = SLOTS - 1; /* of the slots of a bank that are used, 1 less than a power of two */
const volatile u32 ns_inum = 0;	     /* the reader's PID namespace; 0 is the first, where no number is translated */

/* Written by user space while programs run. */
volatile u32 epoch __attribute__((section(".data"))) = 1;

volatile u64 lost;   /* switches without a place */
volatile u64 missed; /* switches that no program saw: a kernel may leave some out, and has */

struct slot {
	u32 epoch; /* 0 while it is being filled */
	u32 switches;
	u64 run;   /* ns */
	u64 start; /* start_boottime of the group leader */
	u32 tgid;  /* of the first namespace */
	u32 pid;   /* of the reader's, 0 if it has none there */
};

struct spill_key {
	u64 start;
	u32 tgid;
	u32 cpu;
	u32 epoch;
	u32 pad;
};

struct spill_value {
	u64 run;
	u32 switches;
	u32 pid;
};

/* The thread on a CPU. A cache line each: other CPUs write theirs all the time. */
struct cell {
	u64 task;   /* its address, to know it again */
	u64 sum_in; /* its sum_exec_runtime when it came */
	u64 start;
	u32 tgid; /* 0: idle */
	u32 pad0;
	u32 pid;
	u32 seq;     /* odd while the cell is being filled */
	u64 sum_now; /* as the last drain found it */
	u32 sum_seq; /* the seq that drain saw before it read: another thread has come if it is not seq */
	u32 pad[3];
};

/* What belongs to a CPU, together: a switch looks into one table, once. */
struct home {
	struct cell cell;
	struct slot slots[2 * SLOTS]; /* of both banks in turn; on many CPUs the table is made with fewer */
};

struct {
	MAP_UINT(type, BPF_MAP_TYPE_ARRAY);
	MAP_UINT(max_entries, 1); /* possible CPUs */
	MAP_UINT(map_flags, BPF_F_MMAPABLE);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct home);
} cpu_homes SEC(".maps");

struct {
	MAP_UINT(type, BPF_MAP_TYPE_HASH);
	MAP_UINT(max_entries, 8192);
	MAP_TYPE(key, struct spill_key);
	MAP_TYPE(value, struct spill_value);
} cpu_spill_0 SEC(".maps"), cpu_spill_1 SEC(".maps");

INLINE struct slot *slot_at(struct home *home, u32 now, u32 tgid, u32 probe)
{
	u32 n = ((tgid ^ probe) & last) * 2; /* numbers are given in turn: no better hash is needed */

	forget(n); /* that it is even: the sum would be an or, of which the verifiers of 5.10 and 6.1 know no bounds */
	return &home->slots[n + (now & 1)];
}

INLINE bool holds(struct slot *s, u32 now, u32 tgid, u64 start)
{
	return s->epoch == now && s->tgid == tgid && s->start == start;
}

/* No other CPU has the keys of this one, and user space empties only the bank that nobody writes. */
INLINE void spill(u32 cpu, u32 now, struct cell *cell, u64 run)
{
	struct spill_key key = {.start = cell->start, .tgid = cell->tgid, .cpu = cpu, .epoch = now};
	struct spill_value first = {.run = run, .switches = 1, .pid = cell->pid};
	struct spill_value *have;
	long err;

	if (now & 1)
		have = bpf_map_lookup_elem(&cpu_spill_1, &key);
	else
		have = bpf_map_lookup_elem(&cpu_spill_0, &key);
	if (have) {
		have->run += run;
		have->switches++;
		return;
	}
	if (now & 1)
		err = bpf_map_update_elem(&cpu_spill_1, &key, &first, BPF_NOEXIST);
	else
		err = bpf_map_update_elem(&cpu_spill_0, &key, &first, BPF_NOEXIST);
	if (err)
		__sync_fetch_and_add(&lost, 1);
}

/* book_first books the first slice of a process in this epoch, and those of one that met others at its slot. */
NOINLINE void book_first(u32 cpu, struct home *home, u32 now, u64 run)
{
	struct cell *cell = &home->cell;

	for (u32 probe = 0; probe < 2; probe++) {
		struct slot *s = slot_at(home, now, cell->tgid, probe);

		if (s->epoch != now) {
			s->epoch = 0;
			barrier();
			s->switches = 1;
			s->run = run;
			s->start = cell->start;
			s->tgid = cell->tgid;
			s->pid = cell->pid;
			barrier();
			s->epoch = now;
			return;
		}
		if (holds(s, now, cell->tgid, cell->start)) {
			s->run += run;
			s->switches++;
			return;
		}
	}
	spill(cpu, now, cell, run);
}

/* book adds to the account of the thread that leaves. */
INLINE void book(u32 cpu, struct home *home, u64 run)
{
	u32 now = epoch, tgid = home->cell.tgid;
	struct slot *s = slot_at(home, now, tgid, 0);

	if (unlikely(!holds(s, now, tgid, home->cell.start))) {
		book_first(cpu, home, now, run);
		return;
	}
	s->run += run;
	s->switches++;
}

/* reader_pid translates a thread group's number. It must be done when a thread comes: one that leaves for the last time
 * may have been reaped by then, and has no number any more. */
NOINLINE u32 reader_pid(struct home *home, struct task_struct *leader, u32 tgid, u64 start)
{
	for (u32 probe = 0; probe < 2; probe++) {
		u32 now = epoch;
		struct slot *s = slot_at(home, now, tgid, probe);

		if (holds(s, now, tgid, start))
			return s->pid;
	}
	return pid_in(leader, ns_inum);
}

enum { MAX_RT_PRIO = 100 }; /* include/linux/sched/prio.h */

/* recover books a thread whose arrival no program saw. The fair class keeps the sum at which it took a thread up; the
 * slice of the one before is gone. */
NOINLINE void recover(u32 cpu, struct home *home, struct task_struct *prev)
{
	struct cell *cell = &home->cell;
	struct task_struct *leader = prev->group_leader;

	__sync_fetch_and_add(&missed, 1);
	if (prev->prio < MAX_RT_PRIO)
		return;
	cell->seq++;
	barrier();
	cell->start = leader->start_boottime;
	cell->tgid = prev->tgid;
	cell->pid = cell->tgid;
	if (ns_inum)
		cell->pid = reader_pid(home, leader, cell->tgid, cell->start);
	barrier();
	cell->seq++;
	book(cpu, home, prev->se.sum_exec_runtime - prev->se.prev_sum_exec_runtime);
}

/* preempt, prev, next: the order of 5.10 to 6.18 and later, whatever follows. */
SEC("tp_btf/sched_switch")
int cpu_switch(u64 *ctx)
{
	struct task_struct *prev = (void *)ctx[1], *next = (void *)ctx[2];
	u32 cpu = bpf_get_smp_processor_id();
	struct home *home = bpf_map_lookup_elem(&cpu_homes, &cpu);

	if (!home)
		return 0;
	struct cell *cell = &home->cell;

	if (likely(cell->task == (u64)prev)) {
		if (cell->tgid)
			book(cpu, home, prev->se.sum_exec_runtime - cell->sum_in);
	} else if (cell->task && prev->pid) {
		recover(cpu, home, prev);
	}

	struct task_struct *leader = next->group_leader;
	u32 tgid = next->tgid; /* 0: idle */
	u64 start = leader->start_boottime;

	u32 seq = cell->seq;

	cell->seq = seq + 1;
	barrier();
	cell->task = (u64)next;
	cell->sum_in = next->se.sum_exec_runtime;
	cell->start = start;
	cell->tgid = tgid;
	cell->pid = tgid;
	if (ns_inum && tgid)
		cell->pid = reader_pid(home, leader, tgid, start);
	barrier();
	cell->seq = seq + 2;
	return 0;
}

enum { DRAIN_CELLS = 128 }; /* of one run, as in cpu.go */

/* The drains bring sum_now of DRAIN_CELLS cells from ctx[0] on up to date, from the CPU that user space is on: no other
 * is interrupted. A thread's sum lags behind by up to a tick. */
SEC("raw_tp")
int cpu_drain_cast(u64 *ctx)
{
	u32 first = ctx[0];

	for (u32 i = 0; i < DRAIN_CELLS; i++) {
		u32 cpu = first + i;
		struct home *home = bpf_map_lookup_elem(&cpu_homes, &cpu);

		if (!home)
			break;
		struct cell *cell = &home->cell;
		u32 seq = cell->seq;

		barrier();
		if (seq & 1 || !cell->tgid)
			continue;
		struct task_struct *task = bpf_rdonly_cast((void *)cell->task, core_type_id(struct task_struct));

		cell->sum_now = task->se.sum_exec_runtime;
		barrier();
		cell->sum_seq = seq;
	}
	return 0;
}

/* The same before 6.2; refused under lockdown=confidentiality. */
SEC("raw_tp")
int cpu_drain_read(u64 *ctx)
{
	u32 first = ctx[0];

	for (u32 i = 0; i < DRAIN_CELLS; i++) {
		u32 cpu = first + i;
		struct home *home = bpf_map_lookup_elem(&cpu_homes, &cpu);

		if (!home)
			break;
		struct cell *cell = &home->cell;
		u32 seq = cell->seq;

		barrier();
		if (seq & 1 || !cell->tgid)
			continue;
		struct task_struct *task = (void *)cell->task;
		u64 sum = 0;

		if (bpf_probe_read_kernel(&sum, sizeof(sum), &task->se.sum_exec_runtime))
			continue;
		cell->sum_now = sum;
		barrier();
		cell->sum_seq = seq;
	}
	return 0;
}
