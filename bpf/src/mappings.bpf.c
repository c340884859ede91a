/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Every mapping of every process as records, in one walk over the kernel's tables of areas (5.12).
 *
 * The address space of a process is that of its leader or, once the leader has ended, of the first thread that lives. Names
 * are told as far as they make a kind; of a file it is device and inode, as maps shows them. An area that
 * found no place is shown again: nothing is kept that this would count twice. The walk is read by one reader at a time. */
#include "kernel.h"

/* Set before loading. */
const volatile u32 ns_inum = 0; /* the reader's PID namespace; 0 is the first, where no number is translated */

enum {
	VM_MAYSHARE = 0x80, /* include/linux/mm.h; the three below it are VM_READ, VM_WRITE and VM_EXEC */
	VM_ACCESS = 0x07,
	HAS_VSYSCALL = 1 << 1, /* MM_CONTEXT_HAS_VSYSCALL, arch/x86/include/asm/mmu.h */
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
	u64 seq_num;
};

typedef struct {
	u16 flags; /* longer since 6.4: its lower bits */
	u16 ia32_compat; /* before flags told it */
} mm_context_t;

struct mm_struct {
	unsigned long start_brk;
	unsigned long brk;
	unsigned long start_stack;
	mm_context_t context;
};

struct task_struct___maps {
	int pid;
	int tgid;
	u64 start_boottime;
	struct mm_struct *mm;
	struct task_struct___maps *group_leader;
};

struct vm_operations_struct {
	void *name;
};

struct vm_special_mapping {
	const char *name;
};

struct vm_area_struct {
	unsigned long vm_start;
	unsigned long vm_end;
	struct mm_struct *vm_mm;
	unsigned long vm_flags;
	struct vm_operations_struct *vm_ops;
	unsigned long vm_pgoff;
	struct file *vm_file;
	void *vm_private_data;
};

struct vfsmount___maps {
	struct super_block *mnt_sb;
};

struct dentry___maps {
	struct super_block *d_sb;
	struct inode *d_inode;
};

struct backing_file {
	struct path user_path; /* 6.7: before, file has it */
};

#pragma clang attribute pop

struct user_path { /* the two members of struct path, since 2.6.26 */
	struct vfsmount___maps *mnt;
	struct dentry___maps *dentry;
};

struct bpf_iter__task_vma {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
	struct vm_area_struct *vma;
};

static long (*const bpf_seq_write)(struct seq_file *m, const void *data, u32 len) = (void *)127; /* 5.8 */

enum mapping_name {
	nameNone,
	nameFile,
	nameHeap,
	nameStack,
	nameKernel,  /* [vdso] and its data */
	nameSpecial, /* any other that the kernel gives */
};

enum {
	bitShared = 1 << 3, /* below it VM_ACCESS */
	atName = 4,	    /* three bits of enum mapping_name */
	bitVsyscall = 1 << 7,
	bitUnsettled = 1 << 8, /* kernels differ in whether this is the heap */
};

struct mapping_record {
	u32 tgid; /* in the reader's namespace */
	u32 bits;
	u64 begun; /* the process: ns of the boot clock, of the first time namespace */
	u64 start, end;
	u64 offset; /* pages */
	u64 inode;
	u32 dev;
	u32 unused;
};

struct {
	MAP_UINT(type, BPF_MAP_TYPE_ARRAY);
	MAP_UINT(max_entries, 1);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct mapping_record);
} scratch SEC(".maps");

/* Of a process without a leader, the thread whose areas are told. */
u64 leaderless;
u32 leaderless_tid;

INLINE u32 number(struct task_struct___maps *t)
{
	return ns_inum ? pid_in((struct task_struct *)t, ns_inum) : (u32)t->pid;
}

/* file_of tells inode and device that users know a file by. A file system that lies over others maps a file of those, which
 * holds its own beside it (6.7). No flag of a fixed number tells, but the two halves of a path belong together, and what
 * stands behind any other file does not. */
INLINE void file_of(struct mapping_record *r, struct file *f)
{
	struct inode *inode = f->f_inode;

	if (core_field_exists(((struct backing_file *)0)->user_path)) {
		struct super_block *sb = NULL, *of_mnt = NULL;
		struct inode *user = NULL;
		struct user_path p = {};

		bpf_probe_read_kernel(&p, sizeof(p), (void *)f + core_field_offset(struct backing_file, user_path));
		if ((s64)p.mnt < 0 && (s64)p.dentry < 0) {
			READ(of_mnt, p.mnt->mnt_sb);
			READ(sb, p.dentry->d_sb);
			if (sb && sb == of_mnt)
				READ(user, p.dentry->d_inode);
		}
		if (user) {
			READ(r->inode, user->i_ino);
			READ(r->dev, sb->s_dev);
			return;
		}
	}
	if (inode) {
		struct super_block *sb = inode->i_sb;

		r->inode = inode->i_ino;
		if (sb)
			r->dev = sb->s_dev;
	}
}

/* special tells what name a mapping of the kernel's own has. */
INLINE u32 special(struct vm_area_struct *v)
{
	struct vm_special_mapping *m = v->vm_private_data;
	const char *name = NULL;
	u64 text = 0; /* little endian */

	READ(name, m->name);
	bpf_probe_read_kernel_str(&text, sizeof(text), name);
	text &= 0xffffffffff;
	if (text == 0x6f7364765b || text == 0x726176765b) /* "[vdso", "[vvar" */
		return nameKernel;
	return nameSpecial;
}

/* anonymous tells what name a mapping of no file has, and what else is known of it. */
INLINE u32 anonymous(struct vm_area_struct *v, u64 start, u64 end)
{
	struct vm_operations_struct *ops = v->vm_ops;
	struct mm_struct *mm = v->vm_mm;
	u64 from, to, stack;
	u32 bits = 0;

	if (ops && ops->name)
		return special(v) << atName;
	if (!mm)
		return 0;
	from = mm->start_brk;
	to = mm->brk;
	if (start < to && end > from && from != to)
		return nameHeap << atName;
	if (start <= to && end >= from)
		bits = bitUnsettled;
	stack = mm->start_stack;
	if (start <= stack && end >= stack)
		bits |= nameStack << atName;
	return bits;
}

INLINE u32 shows_vsyscall(struct mm_struct *mm)
{
	if (core_field_exists(mm->context.flags))
		return mm->context.flags & HAS_VSYSCALL ? bitVsyscall : 0;
	if (core_field_exists(mm->context.ia32_compat))
		return mm->context.ia32_compat ? 0 : bitVsyscall;
	return bitVsyscall;
}

SEC("iter/task_vma") int mappings(struct bpf_iter__task_vma *ctx)
{
	struct task_struct___maps *t = (void *)ctx->task, *leader;
	struct vm_area_struct *v = ctx->vma;
	struct mapping_record *r;
	struct mm_struct *mm;
	struct file *f;
	u64 flags;
	u32 zero = 0, bits;

	if (!t || !v)
		return 0;
	if (!ctx->meta->seq_num)
		leaderless = 0;
	leader = t->group_leader;
	if (!leader)
		return 0;
	if (t->pid != t->tgid) {
		if (leader->mm || (leaderless == (u64)leader && leaderless_tid != (u32)t->pid))
			return 0;
		leaderless = (u64)leader;
		leaderless_tid = t->pid;
	}
	r = bpf_map_lookup_elem(&scratch, &zero);
	if (!r)
		return 0;
	r->tgid = number(leader);
	if (!r->tgid)
		return 0;
	flags = v->vm_flags;
	bits = (flags & VM_ACCESS) | (flags & VM_MAYSHARE ? bitShared : 0);
	r->begun = leader->start_boottime;
	r->start = v->vm_start;
	r->end = v->vm_end;
	r->offset = r->inode = 0;
	r->dev = 0;
	f = v->vm_file;
	if (f) {
		bits |= nameFile << atName;
		r->offset = v->vm_pgoff;
		file_of(r, f);
	} else {
		bits |= anonymous(v, r->start, r->end);
	}
	mm = v->vm_mm;
	if (mm)
		bits |= shows_vsyscall(mm);
	r->bits = bits;
	bpf_seq_write(ctx->meta->seq, r, sizeof(*r));
	return 0;
}
