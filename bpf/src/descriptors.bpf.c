/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Every descriptor of every process as records, in one walk over the kernel's tables of open files.
 *
 * The table of a process is that of its leader or, once the leader has ended, of the first thread that lives. Tables that
 * threads have to themselves are left out. The walk is read by one reader at a time: the scratch memory is shared. */
#include "kernel.h"

/* Set before loading. */
const volatile u32 ns_inum = 0; /* the reader's PID namespace; 0 is the first, where no number is translated */
const volatile u32 typed = 0;	/* the kernel lends typed sockets and writes paths: 5.12 */

u32 paths = 0; /* set before reading: what has a path is told with it */

enum {
	maxText = 4096, /* of a path, PATH_MAX; a power of two */
	maxName = 108,	/* of a UNIX socket, UNIX_PATH_MAX */
	AF_UNIX = 1,
	AF_INET = 2,
	AF_INET6 = 10,
	FMODE_BOTH = 3, /* FMODE_READ and FMODE_WRITE, include/linux/fs.h */
	PIPEFS_MAGIC = 0x50495045,
	SOCKFS_MAGIC = 0x534F434B,
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
};

struct task_struct___fd {
	int pid;
	int tgid;
	char comm[16];
	u64 start_boottime;
	struct files_struct *files;
	struct task_struct___fd *group_leader;
};

struct file___fd {
	u32 f_mode;
	struct inode *f_inode;
	void *private_data; /* of a socket: struct socket */
	struct path f_path;
};

struct net {
	struct ns_common ns;
};

typedef struct {
	struct net *net;
} possible_net_t;

struct in6_addr {
	union {
		u32 u6_addr32[4];
	} in6_u;
};

struct sock_common {
	u32 skc_daddr;
	u32 skc_rcv_saddr;
	u16 skc_dport;
	u16 skc_num;
	u16 skc_family;
	u8 skc_state;
	possible_net_t skc_net;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
};

struct sock___fd {
	struct sock_common __sk_common;
	u16 sk_type;
	u16 sk_protocol;
	struct socket___fd *sk_socket;
};

struct socket___fd {
	struct file___fd *file;
	struct sock___fd *sk;
};

struct sockaddr_un {
	u16 sun_family;
	char sun_path[maxName];
};

struct unix_address {
	int len; /* with the family */
	struct sockaddr_un name[0];
};

struct unix_sock {
	struct unix_address *addr;
	struct sock___fd *peer;
};

#pragma clang attribute pop

struct bpf_iter__task_file {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
	u32 fd __attribute__((aligned(8)));
	struct file *file;
};

static long (*const bpf_seq_write)(struct seq_file *m, const void *data, u32 len) = (void *)127;	/* 5.8 */
static long (*const bpf_d_path)(struct path *path, char *buf, u32 size) = (void *)147;		/* of iterators: 5.12 */
static struct socket *(*const bpf_sock_from_file)(struct file *file) = (void *)162;		/* 5.11 */

static struct unix_sock *(*const bpf_skc_to_unix_sock)(void *sk) = (void *)178;			/* 5.16 */

struct file_record {
	u32 size; /* of the whole record */
	u32 tgid; /* in the reader's namespace */
	u32 tid;  /* whose table it is; likewise */
	u32 fd;
	u32 mode; /* of the inode; from bit 16 on FMODE_BOTH of the file; bit 31: a socket_record */
	u32 dev;
	u64 inode;
	u64 start; /* of the process: ns of the boot clock, of the first time namespace */
	char comm[16];
}; /* a path may follow */

struct socket_record {
	struct file_record file;
	u16 family, type, protocol, state;
	u16 local_port, remote_port;
	u32 netns;
	u64 peer; /* inode of the other end of a UNIX socket */
	u32 local[4], remote[4];
}; /* the name of a UNIX socket may follow */

struct scratch {
	struct socket_record r;
	char text[maxText];
};

struct {
	MAP_UINT(type, BPF_MAP_TYPE_ARRAY);
	MAP_UINT(max_entries, 1);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct scratch);
} scratch SEC(".maps");

/* GET follows a pointer whose type the verifier knows, or copies. */
#define GET_IF(known, dst, from)                                                                                          \
	do {                                                                                                              \
		if (known)                                                                                                \
			(dst) = (from);                                                                                   \
		else                                                                                                      \
			READ(dst, from);                                                                                  \
	} while (0)
#define GET(dst, from) GET_IF(typed, dst, from)

INLINE u32 number(struct task_struct___fd *t)
{
	return ns_inum ? pid_in((struct task_struct *)t, ns_inum) : (u32)t->pid;
}

/* unix_ends tells the other end of a UNIX socket, and writes the name behind the record. It returns its length. */
INLINE u32 unix_ends(struct scratch *s, struct sock___fd *sk)
{
	bool known = typed && core_enum_exists(enum bpf_func_id, BPF_FUNC_skc_to_unix_sock);
	struct unix_sock *u = known ? bpf_skc_to_unix_sock(sk) : (void *)sk;
	struct unix_address *addr = NULL;
	struct sock___fd *peer = NULL;
	struct socket___fd *socket = NULL;
	struct file___fd *file = NULL;
	struct inode *inode = NULL;
	int len = 0;

	if (!u)
		return 0;
	GET_IF(known, peer, u->peer);
	if (peer) {
		GET_IF(known, socket, peer->sk_socket);
		if (socket) /* else it is not accepted yet, or closed */
			GET_IF(known, file, socket->file);
		if (file)
			GET_IF(known, inode, file->f_inode);
		if (inode)
			GET_IF(known, s->r.peer, inode->i_ino);
	}
	GET_IF(known, addr, u->addr);
	if (!addr)
		return 0;
	GET_IF(known, len, addr->len);
	len -= sizeof(u16);
	if (len <= 0 || len > maxName)
		return 0;
	bpf_probe_read_kernel(s->text, len, (void *)addr + core_field_offset(struct unix_address, name) + sizeof(u16));
	return len;
}

/* fill_socket fills the second part of the record, and returns how many bytes of a name follow. */
INLINE u32 fill_socket(struct scratch *s, struct file___fd *f)
{
	struct socket_record *r = &s->r;
	struct socket___fd *socket = NULL;
	struct sock___fd *sk = NULL;
	struct net *net = NULL;

	__builtin_memset((void *)r + sizeof(r->file), 0, sizeof(*r) - sizeof(r->file));
	if (typed)
		socket = (void *)bpf_sock_from_file((struct file *)f);
	else
		READ(socket, f->private_data);
	if (!socket)
		return 0;
	GET(sk, socket->sk);
	if (!sk)
		return 0;
	GET(r->family, sk->__sk_common.skc_family);
	GET(r->type, sk->sk_type);
	GET(r->protocol, sk->sk_protocol);
	if (typed) {
		r->state = sk->__sk_common.skc_state;
	} else {
		u8 state = 0;

		READ(state, sk->__sk_common.skc_state);
		r->state = state;
	}
	GET(net, sk->__sk_common.skc_net.net);
	if (net)
		GET(r->netns, net->ns.inum);
	if (r->family == AF_UNIX)
		return unix_ends(s, sk);
	if (r->family != AF_INET && r->family != AF_INET6)
		return 0;
	GET(r->local_port, sk->__sk_common.skc_num);
	GET(r->remote_port, sk->__sk_common.skc_dport);
	r->remote_port = __builtin_bswap16(r->remote_port);
	if (r->family == AF_INET) {
		GET(r->local[0], sk->__sk_common.skc_rcv_saddr);
		GET(r->remote[0], sk->__sk_common.skc_daddr);
	} else if (core_field_exists(sk->__sk_common.skc_v6_daddr)) {
		for (int i = 0; i < 4; i++) {
			GET(r->local[i], sk->__sk_common.skc_v6_rcv_saddr.in6_u.u6_addr32[i]);
			GET(r->remote[i], sk->__sk_common.skc_v6_daddr.in6_u.u6_addr32[i]);
		}
	}
	return 0;
}

SEC("iter/task_file") int descriptors(struct bpf_iter__task_file *ctx)
{
	struct task_struct___fd *t = (void *)ctx->task, *leader;
	struct file___fd *f = (void *)ctx->file;
	struct file_record *r;
	struct scratch *s;
	struct super_block *sb;
	struct inode *inode;
	u32 zero = 0, len = 0;
	unsigned long magic;
	long written;

	if (!t || !f)
		return 0;
	leader = t->group_leader;
	if (!leader || (t->pid != t->tgid && leader->files))
		return 0;
	s = bpf_map_lookup_elem(&scratch, &zero);
	inode = f->f_inode;
	if (!s || !inode)
		return 0;
	sb = inode->i_sb;
	if (!sb)
		return 0;
	magic = sb->s_magic;
	r = &s->r.file;
	r->tgid = number(leader);
	if (!r->tgid)
		return 0;
	r->tid = t->pid == t->tgid ? r->tgid : number(t);
	r->fd = ctx->fd;
	r->mode = inode->i_mode | (f->f_mode & FMODE_BOTH) << 16;
	r->dev = sb->s_dev;
	r->inode = inode->i_ino;
	r->start = leader->start_boottime;
	__builtin_memcpy(r->comm, leader->comm, sizeof(r->comm));
	if (magic == SOCKFS_MAGIC) {
		r->mode |= 1U << 31;
		len = fill_socket(s, f);
		r->size = sizeof(s->r) + (len & 127);
		bpf_seq_write(ctx->meta->seq, s, sizeof(s->r) + (len & 127));
		return 0;
	}
	if (typed && paths && magic != PIPEFS_MAGIC) {
		written = bpf_d_path((struct path *)&f->f_path, (void *)s + sizeof(*r), maxText);
		if (written > 0)
			len = written - 1;
	}
	len &= maxText - 1;
	r->size = sizeof(*r) + len;
	bpf_seq_write(ctx->meta->seq, s, sizeof(*r) + len);
	return 0;
}
