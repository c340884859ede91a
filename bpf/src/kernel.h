/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* The kernel's types, as far as the programs read them. Members may be missing and stand in any order: each access is
 * resolved by name against the running kernel's BTF (CO-RE), so one object serves 5.10 and later. */
#pragma once

#include "helpers.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct pid_namespace;
struct mount;
struct inode;

struct thread_info {
	u32 status; /* arch/x86: TS_COMPAT */
};

struct ns_common {
	u32 inum;
};

struct pid_namespace {
	struct ns_common ns;
};

struct upid {
	int nr;
	struct pid_namespace *ns;
};

struct pid {
	u32 level;
	struct upid numbers[1];
};

struct sched_entity {
	u64 sum_exec_runtime;
	u64 prev_sum_exec_runtime;
};

struct qstr {
	const unsigned char *name;
};

struct hlist_bl_node {
	struct hlist_bl_node **pprev;
};

struct dentry {
	struct hlist_bl_node d_hash;
	struct dentry *d_parent;
	struct qstr d_name;
};

struct vfsmount {
	struct dentry *mnt_root;
};

struct mount {
	struct mount *mnt_parent;
	struct dentry *mnt_mountpoint;
	struct vfsmount mnt;
};

struct path {
	struct vfsmount *mnt;
	struct dentry *dentry;
};

struct super_block {
	u32 s_dev;
	unsigned long s_magic;
};

struct inode {
	u16 i_mode;
	struct super_block *i_sb;
	unsigned long i_ino;
	u32 i_generation;
};

struct file {
	struct path f_path;
	struct inode *f_inode;
};

struct kiocb {
	struct file *ki_filp;
};

struct fdtable {
	u32 max_fds;
	struct file **fd;
};

struct files_struct {
	struct fdtable *fdt;
};

struct task_struct {
	struct thread_info thread_info;
	u32 flags;
	int prio;
	int pid;
	int tgid;
	struct sched_entity se;
	struct task_struct *group_leader;
	struct pid *thread_pid;
	struct files_struct *files;
	u64 start_boottime; /* start_time of the boot clock, 5.5 */
};

struct socket {
	struct file *file;
};

struct sock {
	struct socket *sk_socket;
};

struct pt_regs {
	unsigned long r10;
	unsigned long dx;
	unsigned long si;
	unsigned long di;
	unsigned long orig_ax;
};

#pragma clang attribute pop

static struct task_struct *(*const bpf_get_current_task_btf)(void) = (void *)158;
static struct pt_regs *(*const bpf_task_pt_regs)(struct task_struct *task) = (void *)175;
/* kfunc, 6.2: addr becomes a pointer of the type; loads through it cannot fault. */
extern void *bpf_rdonly_cast(const void *addr, u32 btf_id) __attribute__((section(".ksyms"), weak));

/* READ(dst, pointer->member) copies without trusting the pointer; refused under lockdown=confidentiality. */
#define READ(dst, from) bpf_probe_read_kernel(&(dst), sizeof(dst), &(from))

#define PF_IO_WORKER 0x00000010 /* include/linux/sched.h */
#define PF_KTHREAD 0x00200000
#define TS_COMPAT 0x0002 /* arch/x86/include/asm/thread_info.h: inside a 32-bit system call */

enum { maxNamespaceLevel = 32 }; /* MAX_PID_NS_LEVEL, include/linux/pid_namespace.h */

/* pid_in returns the number of a thread group in the PID namespace inum, and 0 where it has none. */
NOINLINE u32 pid_in(struct task_struct *leader, u32 inum)
{
	struct pid *pid = NULL;
	u32 level = 0;

	READ(pid, leader->thread_pid);
	READ(level, pid->level);
	for (u32 i = 0; i <= maxNamespaceLevel && i <= level; i++) {
		/* numbers grew a flexible end in 6.5: its element size, not its length, is what counts. */
		struct upid *at = (void *)pid + core_field_offset(struct pid, numbers) + i * core_type_size(struct upid);
		struct pid_namespace *ns = NULL;
		u32 found = 0;
		int nr = 0;

		READ(ns, at->ns);
		READ(found, ns->ns.inum);
		if (found == inum) {
			READ(nr, at->nr);
			return nr;
		}
	}
	return 0;
}

static const char terms[] SEC("license") = "GPL";
