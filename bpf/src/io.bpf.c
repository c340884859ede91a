/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Who moved how many bytes to and from which pipe, socket and file.
 *
 * Three ways to see an operation end, of which the loader takes one for each class:
 *   - fexit on vfs_read, vfs_write, vfs_readv, vfs_writev (files and pipes), on sock_sendmsg and sock_recvmsg
 *   - the tracepoints sock_send_length and sock_recv_length (sockets, 6.3)
 *   - the tracepoint sys_exit: descriptor to file, by typed loads (6.2) or by copies
 * All end in add(): counts by process, resource and direction in a table of the CPU, of two banks. User space turns the
 * epoch, waits until no program can still be in the old bank, and reads it; nothing is sent per operation. */
#include "kernel.h"

#define S_IFMT 00170000
#define S_IFIFO 0010000
#define S_IFCHR 0020000
#define S_IFBLK 0060000
#define S_IFREG 0100000
#define S_IFSOCK 0140000
#define PROC_SUPER_MAGIC 0x9fa0 /* include/uapi/linux/magic.h */
#define ANON_INODE_FS_MAGIC 0x09041934 /* include/uapi/linux/magic.h: eventfd, timerfd, epoll, inotify */
#define MSG_PEEK 0x2
#define MSG_ERRQUEUE 0x2000
#define X32_SYSCALL_BIT 0x40000000

/* Kinds and flags of a key, as in io.go. */
enum { PIPE = 1, SOCKET = 2, FILE = 3, KIND_MASK = 3, WRITE = 4 };
/* What the program is to count: bits of want. */
enum { WANT_PIPES = 1, WANT_FILES = 2, WANT_OUT = 4, WANT_IN = 8 };

/* Set before loading. */
const volatile u32 slots = 256;	  /* of one bank, a power of two */
const volatile u32 regions = 6;	  /* tables of one CPU: each program that can be interrupted by another has its own */
const volatile u32 sys_region = 0;
const volatile u32 out_region = 4;
const volatile u32 in_region = 5;
const volatile u32 ns_inum = 0;	     /* the reader's PID namespace; 0 is the first, where no number is translated */
const volatile u32 sys_want = 0;     /* what sys_exit counts, of want; the rest has hooks of its own */
const volatile u32 own_tgid = 0;     /* the reader's, where its PID namespace is the first; 0 where it is not */
const volatile u32 walk_paths = 1;   /* 0 where bpf_probe_read_kernel is refused */

/* Written by user space while programs run. */
volatile u32 epoch __attribute__((section(".data"))) = 1;
volatile u32 want __attribute__((section(".data"))) = 0;

/* Failure paths only, so atomic adds cost nothing that matters. */
volatile u64 lost;	  /* operations on pipes and sockets without a place */
volatile u64 files_lost;  /* operations on files without a place */
volatile u64 unresolved;  /* of kernel threads, io workers, descriptors closed meanwhile */
volatile u64 paths_lost;  /* paths that found the ring full */

/* What a count belongs to. */
struct key {
	u64 start; /* start_boottime of the group leader */
	u64 ino;
	u32 dev; /* kernel encoding: major << 20 | minor */
	u32 gen;
	u32 tgid; /* of the first namespace */
	u32 kind; /* PIPE, SOCKET or FILE, | WRITE */
};

struct slot {
	u32 epoch; /* 0 while it is being filled */
	u32 count;
	u64 bytes;
	struct key key;
	u32 pid;  /* tgid in the reader's namespace, 0 when it has none there */
	u32 next; /* index + 1 of the slot claimed before, in this bank */
	u64 unused;
};

struct head {
	u32 epoch;
	u32 first; /* index + 1 of the slot claimed last */
	u32 unused[14];
};

struct spill_key {
	struct key key;
	u32 epoch;
	u32 unused;
};

struct spill_value {
	u64 bytes;
	u64 count;
	u32 pid;
	u32 unused;
};

enum { PATH_BYTES = 4096, NAME_BYTES = 256, PATH_STEPS = 64 };
enum { PATH_DELETED = 1, PATH_TRUNCATED = 2 };

/* One record of the ring: the names from the file up to the root of its mount namespace, each ended by NUL. */
struct path_record {
	struct key key;
	u32 epoch;
	u32 pid;
	u32 flags;
	u32 length;
	char names[PATH_BYTES + NAME_BYTES];
};

/* What does not fit on the stack, for each region of a CPU. */
struct scratch {
	u64 bytes, count, unread; /* of many() */
	struct path_record path;
};

struct {
	MAP_UINT(type, BPF_MAP_TYPE_ARRAY);
	MAP_UINT(map_flags, BPF_F_MMAPABLE);
	MAP_UINT(max_entries, 1);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct slot);
} io_slots SEC(".maps");

struct {
	MAP_UINT(type, BPF_MAP_TYPE_ARRAY);
	MAP_UINT(map_flags, BPF_F_MMAPABLE);
	MAP_UINT(max_entries, 1);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct head);
} io_heads SEC(".maps");

/* One for each parity of the epoch: what is being emptied is never being filled. */
struct {
	MAP_UINT(type, BPF_MAP_TYPE_HASH);
	MAP_UINT(max_entries, 16384);
	MAP_TYPE(key, struct spill_key);
	MAP_TYPE(value, struct spill_value);
} io_spill_0 SEC(".maps"), io_spill_1 SEC(".maps");

struct {
	MAP_UINT(type, BPF_MAP_TYPE_RINGBUF);
	MAP_UINT(max_entries, 1 << 20);
} paths SEC(".maps");

struct {
	MAP_UINT(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	MAP_UINT(max_entries, 6);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct scratch);
} scratch SEC(".maps");

/* An operation that has ended, on its way into the tables. Not cleared as a whole, which would cost more than the rest of
 * some programs: each member is set before it is read. */
struct op {
	struct key key;
	u64 bytes;
	u64 count;
	struct task_struct *leader;
	struct file *file;
	u32 region;
	u32 epoch;
	u32 pid;
	u32 first; /* of the bank */
	u32 probe[2];
};

/* walk sends the path of a file, names leaf first. The cursor lives in the record and not in a register: with a register
 * the verifier follows every length of every name. */
NOINLINE void walk(struct op *op)
{
	struct scratch *room;
	struct path_record *r;
	struct dentry *dentry = NULL, *parent, *root;
	struct vfsmount *at = NULL;
	struct mount *mount;
	struct hlist_bl_node **pprev = NULL;
	u32 region = op->region;

	room = bpf_map_lookup_elem(&scratch, &region);
	if (!room)
		return;
	r = &room->path;
	r->key = op->key;
	r->epoch = op->epoch;
	r->pid = op->pid;
	r->flags = PATH_TRUNCATED; /* until the root is reached */
	r->length = 0;
	READ(dentry, op->file->f_path.dentry);
	READ(at, op->file->f_path.mnt);
	READ(pprev, dentry->d_hash.pprev);
	if (!pprev)
		r->flags |= PATH_DELETED;
	mount = (void *)at - core_field_offset(struct mount, mnt);
	for (u32 i = 0; i < PATH_STEPS; i++) {
		const unsigned char *name = NULL;
		long n;

		parent = root = NULL;
		READ(root, mount->mnt.mnt_root);
		if (dentry == root) {
			struct mount *above = NULL;

			READ(above, mount->mnt_parent);
			if (!above || above == mount) {
				r->flags &= ~PATH_TRUNCATED;
				break;
			}
			READ(dentry, mount->mnt_mountpoint);
			mount = above;
			continue;
		}
		READ(parent, dentry->d_parent);
		if (parent == dentry && r->length) {
			r->flags &= ~PATH_TRUNCATED; /* a tree that hangs nowhere */
			break;
		}
		if (r->length > PATH_BYTES - 1)
			break;
		READ(name, dentry->d_name.name);
		n = bpf_probe_read_kernel_str(r->names + (r->length & (PATH_BYTES - 1)), NAME_BYTES, name);
		if (n <= 0)
			break;
		r->length += n;
		if (parent == dentry) { /* memfd: a name without a tree */
			r->flags &= ~PATH_TRUNCATED;
			break;
		}
		dentry = parent;
	}
	u32 length = r->length;
	if (length > PATH_BYTES || (r->flags & PATH_TRUNCATED)) {
		r->flags |= PATH_TRUNCATED;
		length = r->length = 0;
	}
	if (bpf_ringbuf_output(&paths, r, __builtin_offsetof(struct path_record, names) + (length & (2 * PATH_BYTES - 1)),
			       BPF_RB_NO_WAKEUP))
		__sync_fetch_and_add(&paths_lost, 1);
}

INLINE bool same(const struct key *a, const struct key *b)
{
	return a->ino == b->ino && a->tgid == b->tgid && a->kind == b->kind && a->dev == b->dev && a->gen == b->gen &&
	       a->start == b->start;
}

INLINE struct spill_value *spilled(struct spill_key *key)
{
	return key->epoch & 1 ? bpf_map_lookup_elem(&io_spill_1, key) : bpf_map_lookup_elem(&io_spill_0, key);
}

/* spill counts an operation whose slots are taken. It returns true when the key is new in this window. */
NOINLINE bool spill(struct op *op)
{
	struct spill_key key = {.key = op->key, .epoch = op->epoch};
	struct spill_value first = {.bytes = op->bytes, .count = op->count, .pid = op->pid};
	struct spill_value *v = spilled(&key);

	if (!v) {
		long err = key.epoch & 1 ? bpf_map_update_elem(&io_spill_1, &key, &first, BPF_NOEXIST) :
					   bpf_map_update_elem(&io_spill_0, &key, &first, BPF_NOEXIST);
		if (!err)
			return true;
		v = spilled(&key); /* another CPU may have been first */
	}
	if (v) {
		__sync_fetch_and_add(&v->bytes, op->bytes);
		__sync_fetch_and_add(&v->count, op->count);
	} else if ((op->key.kind & KIND_MASK) == FILE) {
		__sync_fetch_and_add(&files_lost, op->count);
	} else {
		__sync_fetch_and_add(&lost, op->count);
	}
	return false;
}

/* claim finds a place for a key that has none among its two slots. */
NOINLINE void claim(struct op *op)
{
	u32 index, bank = op->first / slots;
	struct head *head;
	struct slot *s;
	bool fresh = false;

	op->pid = ns_inum ? pid_in(op->leader, ns_inum) : op->key.tgid;
	head = bpf_map_lookup_elem(&io_heads, &bank);
	for (int i = 0; i < 2 && head; i++) {
		index = op->probe[i];
		s = bpf_map_lookup_elem(&io_slots, &index);
		if (!s)
			return;
		if (s->epoch == op->epoch)
			continue;
		if (head->epoch != op->epoch) {
			head->first = 0;
			barrier();
			head->epoch = op->epoch;
		}
		/* The reader takes a slot by its epoch and finds it by the head, so these are written last. */
		s->epoch = 0;
		barrier();
		s->key = op->key;
		s->count = op->count;
		s->bytes = op->bytes;
		s->pid = op->pid;
		s->next = head->first;
		barrier();
		s->epoch = op->epoch;
		barrier();
		head->first = index - op->first + 1;
		fresh = true;
		break;
	}
	/* A process of no number here has a slot, which keeps its next operations cheap, but nothing more. */
	if (!fresh && op->pid)
		fresh = spill(op);
	if (walk_paths && fresh && op->pid && (op->key.kind & KIND_MASK) == FILE)
		walk(op);
}

INLINE bool add_at(const struct op *op, u32 index, u32 now)
{
	struct slot *s = bpf_map_lookup_elem(&io_slots, &index);

	if (!s || s->epoch != now || !same(&s->key, &op->key))
		return false;
	s->bytes += op->bytes;
	barrier();
	s->count += op->count;
	return true;
}

/* add counts what has ended under op->key; the caller has set all but the place. */
INLINE void add(struct op *op, u32 region)
{
	u32 now = epoch, size = slots;
	u32 h = ((u32)op->key.ino ^ (u32)(op->key.ino >> 32) ^ op->key.dev) * 0x9e3779b1u + op->key.tgid * 0x85ebca6bu +
		op->key.kind * 0xc2b2ae35u;
	u32 first = ((bpf_get_smp_processor_id() * regions + region) * 2 + (now & 1)) * size;
	u32 one, other;

	h ^= h >> 15;
	one = first + (h & (size - 1));
	if (likely(add_at(op, one, now)))
		return;
	other = first + ((h >> 16) & (size - 1));
	if (add_at(op, other, now))
		return;
	op->epoch = now;
	op->first = first;
	op->region = region;
	op->probe[0] = one;
	op->probe[1] = other;
	claim(op);
}

/* GET loads pointer->member: as it stands where the verifier knows the pointer's type, else by a copy. */
#define GET(typed, pointer, member)                                   \
	({                                                            \
		typeof((pointer)->member) value_ = 0;                 \
		if (typed)                                            \
			value_ = (pointer)->member;                   \
		else                                                  \
			READ(value_, (pointer)->member);              \
		value_;                                               \
	})

INLINE void take_inode(struct op *op, struct inode *inode, const bool typed)
{
	struct super_block *sb = GET(typed, inode, i_sb);

	op->key.dev = GET(typed, sb, s_dev);
	op->key.ino = GET(typed, inode, i_ino);
	op->key.gen = 0;
}

INLINE void take_task(struct op *op, struct task_struct *task, const bool typed)
{
	op->leader = GET(typed, task, group_leader);
	op->key.tgid = GET(typed, task, tgid);
	op->key.start = GET(typed, op->leader, start_boottime);
}

/* kind_of says what a mode of an inode is counted as; 0 is nothing. */
INLINE u32 kind_of(u16 mode)
{
	switch (mode & S_IFMT) {
	case S_IFREG:
	case S_IFBLK:
	case S_IFCHR:
		return FILE;
	case S_IFIFO:
		return PIPE;
	case S_IFSOCK:
		return SOCKET;
	}
	return 0;
}

/* take_file fills the key from a file; false when it is of no kind that is wanted of this program. */
INLINE bool take_file(struct op *op, struct file *file, bool write, u32 mine, const bool typed)
{
	struct inode *inode = GET(typed, file, f_inode);
	u32 kind = kind_of(GET(typed, inode, i_mode));
	u32 wanted = kind == FILE ? WANT_FILES : kind == PIPE ? WANT_PIPES : write ? WANT_OUT : WANT_IN;

	if (!kind || !(mine & want & wanted))
		return false;
	take_inode(op, inode, typed);
	if (kind == FILE) {
		struct super_block *sb = GET(typed, inode, i_sb);

		unsigned long magic = GET(typed, sb, s_magic);

		if (magic == ANON_INODE_FS_MAGIC)
			return false;
		/* What the reader reads to know the host would fill the tables with thousands of files. */
		if (magic == PROC_SUPER_MAGIC && own_tgid && !write && bpf_get_current_pid_tgid() >> 32 == own_tgid)
			return false;
		op->key.gen = GET(typed, inode, i_generation);
	}
	op->key.kind = kind | (write ? WRITE : 0);
	op->file = file;
	return true;
}

/* A task that works for another, which cannot be told from here. */
INLINE bool worker(u32 flags)
{
	if (likely(!(flags & (PF_KTHREAD | PF_IO_WORKER))))
		return false;
	__sync_fetch_and_add(&unresolved, 1);
	return true;
}

/* take_current fills the key from the running task; false for a worker. */
INLINE bool take_current(struct op *op)
{
	if (core_enum_exists(enum bpf_func_id, BPF_FUNC_get_current_task_btf)) {
		struct task_struct *task = bpf_get_current_task_btf();

		if (worker(task->flags))
			return false;
		take_task(op, task, true);
	} else {
		struct task_struct *task = bpf_get_current_task();

		if (worker(GET(false, task, flags)))
			return false;
		take_task(op, task, false);
	}
	return true;
}

/* ---- files and pipes at the VFS ---- */

INLINE int vfs(struct file *file, s64 done, bool write, u32 region)
{
	struct op op;

	if (done <= 0 || !take_file(&op, file, write, WANT_FILES | WANT_PIPES, true) || !take_current(&op))
		return 0;
	op.bytes = done;
	op.count = 1;
	add(&op, region);
	return 0;
}

SEC("fexit/vfs_read") int vfs_read(u64 *ctx) { return vfs((void *)ctx[0], ctx[4], false, 0); }
SEC("fexit/vfs_write") int vfs_write(u64 *ctx) { return vfs((void *)ctx[0], ctx[4], true, 1); }
SEC("fexit/vfs_readv") int vfs_readv(u64 *ctx) { return vfs((void *)ctx[0], ctx[5], false, 2); }
SEC("fexit/vfs_writev") int vfs_writev(u64 *ctx) { return vfs((void *)ctx[0], ctx[5], true, 3); }

/* ---- system calls that move bytes ---- */

/* What a call does: bits of calls[]. */
enum {
	CALL = 1,
	CALL_WRITE = 2,
	CALL_SOCKET = 4,   /* on sockets only */
	CALL_MANY = 8,	   /* returns messages; lengths stand in the caller's array */
	CALL_FLAGS_R10 = 16, /* argument with MSG_ flags */
	CALL_FLAGS_DX = 32,
};
enum { CALLS = 576, CALLS32 = 448 };

/* By number, arch/x86/entry/syscalls/syscall_64.tbl; from 512 on those of x32. */
static const volatile u8 calls[CALLS] = {
	[0] = CALL,					      /* read */
	[1] = CALL | CALL_WRITE,			      /* write */
	[17] = CALL,					      /* pread64 */
	[18] = CALL | CALL_WRITE,			      /* pwrite64 */
	[19] = CALL,					      /* readv */
	[20] = CALL | CALL_WRITE,			      /* writev */
	[44] = CALL | CALL_WRITE | CALL_SOCKET,		      /* sendto */
	[45] = CALL | CALL_SOCKET | CALL_FLAGS_R10,	      /* recvfrom */
	[46] = CALL | CALL_WRITE | CALL_SOCKET,		      /* sendmsg */
	[47] = CALL | CALL_SOCKET | CALL_FLAGS_DX,	      /* recvmsg */
	[295] = CALL,					      /* preadv */
	[296] = CALL | CALL_WRITE,			      /* pwritev */
	[299] = CALL | CALL_SOCKET | CALL_MANY | CALL_FLAGS_R10, /* recvmmsg */
	[307] = CALL | CALL_WRITE | CALL_SOCKET | CALL_MANY,  /* sendmmsg */
	[327] = CALL,					      /* preadv2 */
	[328] = CALL | CALL_WRITE,			      /* pwritev2 */
	[515] = CALL, [516] = CALL, [517] = CALL, [518] = CALL, [519] = CALL, /* x32 readv writev recvfrom sendmsg recvmsg */
	[534] = CALL, [535] = CALL, [537] = CALL, [538] = CALL, /* x32 preadv pwritev recvmmsg sendmmsg */
	[546] = CALL, [547] = CALL,			      /* x32 preadv2 pwritev2 */
};

/* By number, arch/x86/entry/syscalls/syscall_32.tbl: the calls that reach a socket for their own sake. */
static const volatile u8 calls32[CALLS32] = {
	[3] = CALL, [4] = CALL, [102] = CALL,		      /* read write socketcall */
	[145] = CALL, [146] = CALL,			      /* readv writev */
	[337] = CALL, [345] = CALL,			      /* recvmmsg sendmmsg */
	[369] = CALL, [370] = CALL, [371] = CALL, [372] = CALL, /* sendto sendmsg recvfrom recvmsg */
	[378] = CALL, [379] = CALL, [417] = CALL,	      /* preadv2 pwritev2 recvmmsg_time64 */
};

enum { MESSAGES = 1024 }; /* UIO_MAXIOV, the most that the kernel takes at once */

struct mmsghdr {
	u64 msg_hdr[7];
	u32 msg_len;
	u32 unused;
};

/* many sums up the messages of a sendmmsg or recvmmsg from the caller's array. The sums stand in a map, not in registers:
 * with registers the verifier follows the rest of the program once for each number of messages. */
NOINLINE void many(struct op *op, u64 array, u32 messages)
{
	u32 region = sys_region;
	struct scratch *sum = bpf_map_lookup_elem(&scratch, &region);

	op->count = 0;
	if (!sum)
		return;
	sum->bytes = sum->count = sum->unread = 0;
	for (u32 i = 0; i < MESSAGES && i < messages; i++) {
		struct mmsghdr *m = (void *)array + i * sizeof(*m);
		u32 n = 0;

		if (bpf_probe_read_user(&n, sizeof(n), &m->msg_len))
			sum->unread++;
		sum->bytes += n;
		sum->count += n > 0;
	}
	op->bytes = sum->bytes;
	op->count = sum->count;
	if (sum->unread)
		__sync_fetch_and_add(&unresolved, sum->unread);
}

/* file_at finds the file of a descriptor, as it stands after the call. */
INLINE struct file *file_at(struct task_struct *task, u32 fd, const bool typed)
{
	struct files_struct *files = GET(typed, task, files);
	struct fdtable *fdt;
	u64 slot;

	if (!files)
		return NULL;
	fdt = GET(typed, files, fdt);
	if (fd >= GET(typed, fdt, max_fds))
		return NULL;
	slot = (u64)GET(typed, fdt, fd) + (u64)fd * sizeof(struct file *);
	if (typed) {
		/* A slot of the table read as the member of a struct that holds nothing but a file: so its load is typed too. */
		struct kiocb *as = bpf_rdonly_cast((void *)(slot - core_field_offset(struct kiocb, ki_filp)), core_type_id(struct kiocb));

		return as->ki_filp;
	} else {
		struct file *file = NULL;

		bpf_probe_read_kernel(&file, sizeof(file), (void *)slot);
		return file;
	}
}

INLINE int sys_exit(struct pt_regs *regs, s64 done, struct task_struct *task, const bool typed)
{
	const bool sockets = sys_want & (WANT_OUT | WANT_IN);
	u64 nr = regs->orig_ax;
	struct op op;
	struct file *file;
	u64 flags = 0;
	u32 call;

	if (done <= 0 || nr >= 512)
		return 0;
	call = calls[nr];
	if (!call || (!sockets && (call & CALL_SOCKET)))
		return 0;
	if (GET(typed, task, thread_info.status) & TS_COMPAT)
		return 0; /* numbers of another table */
	if (sockets && (call & CALL_FLAGS_R10))
		flags = regs->r10;
	else if (sockets && (call & CALL_FLAGS_DX))
		flags = regs->dx;
	if (flags & (MSG_PEEK | MSG_ERRQUEUE))
		return 0;
	file = file_at(task, regs->di, typed);
	if (!file) {
		__sync_fetch_and_add(&unresolved, 1);
		return 0;
	}
	if (!take_file(&op, file, call & CALL_WRITE, sys_want, typed))
		return 0;
	take_task(&op, task, typed);
	op.bytes = done;
	op.count = 1;
	if (sockets && (call & CALL_MANY))
		many(&op, regs->si, done);
	if (op.count)
		add(&op, sys_region);
	return 0;
}

SEC("tp_btf/sys_exit") int sys_exit_typed(u64 *ctx)
{
	return sys_exit((void *)ctx[0], ctx[1], bpf_get_current_task_btf(), true);
}

SEC("tp_btf/sys_exit") int sys_exit_copied(u64 *ctx)
{
	return sys_exit((void *)ctx[0], ctx[1], bpf_get_current_task(), false);
}

/* ---- sockets ---- */

/* own_call is false inside a call that reaches a socket for another purpose: sendfile, splice, io_uring, aio. */
INLINE bool own_call(struct task_struct *task)
{
	struct pt_regs *regs = bpf_task_pt_regs(task);
	u64 nr = regs->orig_ax;

	if (unlikely(task->thread_info.status & TS_COMPAT))
		return nr < CALLS32 && calls32[nr];
	nr &= ~(u64)X32_SYSCALL_BIT;
	return nr < CALLS && calls[nr];
}

INLINE int sock(struct socket *socket, s32 done, bool write, u32 region)
{
	struct op op;
	struct file *file;

	if (done <= 0 || !socket || !(want & (write ? WANT_OUT : WANT_IN)))
		return 0;
	file = socket->file;
	if (!file) /* of the kernel itself: no process has it open */
		return 0;
	if (!take_current(&op))
		return 0;
	if (core_enum_exists(enum bpf_func_id, BPF_FUNC_task_pt_regs) && !own_call(bpf_get_current_task_btf()))
		return 0;
	take_inode(&op, file->f_inode, true);
	op.key.kind = SOCKET | (write ? WRITE : 0);
	op.bytes = done;
	op.count = 1;
	add(&op, region);
	return 0;
}

SEC("tp_btf/sock_send_length") int sock_send_length(u64 *ctx)
{
	struct sock *sk = (void *)ctx[0];

	return sock(sk->sk_socket, ctx[1], true, out_region);
}

SEC("tp_btf/sock_recv_length") int sock_recv_length(u64 *ctx)
{
	struct sock *sk = (void *)ctx[0];

	return ctx[2] & (MSG_PEEK | MSG_ERRQUEUE) ? 0 : sock(sk->sk_socket, ctx[1], false, in_region);
}

SEC("fexit/__sock_sendmsg") int sock_sendmsg_inner(u64 *ctx) { return sock((void *)ctx[0], ctx[2], true, out_region); }
SEC("fexit/sock_sendmsg") int sock_sendmsg(u64 *ctx) { return sock((void *)ctx[0], ctx[2], true, out_region); }
SEC("fexit/sock_recvmsg") int sock_recvmsg(u64 *ctx)
{
	return ctx[2] & (MSG_PEEK | MSG_ERRQUEUE) ? 0 : sock((void *)ctx[0], ctx[3], false, in_region);
}
