// fds PID LOOPS: the limit for the descriptors of one process with their other
// ends: the link of every descriptor of the host, the socket tables of sock_diag,
// joined by inode; and of the process itself stat and fdinfo of each descriptor.
#include "util.h"
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/xattr.h>

struct own {
	int fd;
	char kind;
	uint64_t ino, peer, flags, pos;
	mode_t mode;
	long name, len;
	char protocol[16];
};

static struct own *own;
static long n, cap, looked, used, room;
static long held; // descriptors of others that are ends of the process's own objects
static char *arena;
static int procfd, target, sk;

// open addressing: inode to the number of an own descriptor and 1; peers have the
// number of the descriptor they belong to, negative
static struct slot { uint64_t key; long val; } *tab;
static unsigned mask;
static struct slot *slot(uint64_t k, int kind) {
	k = k << 1 | (uint64_t)(kind == 'p');
	unsigned i = (unsigned)((k * 0x9E3779B97F4A7C15ull) >> 40) & mask;
	while (tab[i].val && tab[i].key != k) i = (i + 1) & mask;
	tab[i].key = k;
	return &tab[i];
}

struct end { struct { uint32_t a[4], b[4]; uint16_t ap, bp; } t; uint64_t ino; };
static struct end *ends;
static unsigned emask, en;
static struct end *find_end(const void *t) {
	const uint32_t *w = t;
	uint64_t h = 0;
	for (int i = 0; i < 9; i++) h = (h ^ w[i]) * 0x9E3779B97F4A7C15ull, h ^= h >> 29;
	unsigned i = (unsigned)h & emask;
	while (ends[i].ino && memcmp(&ends[i].t, t, sizeof ends[i].t)) i = (i + 1) & emask;
	return &ends[i];
}

static void tie(uint64_t ino, uint64_t peer) {
	struct slot *s = slot(ino, 's');
	if (s->val <= 0) return;
	own[s->val - 1].peer = peer;
	struct slot *p = slot(peer, 's');
	if (!p->val) p->val = -s->val;
}

static void dump(void *req, size_t len, void (*each)(void *msg, int len)) {
	static char b[1 << 18];
	if (send(sk, req, len, 0) < 0) { perror("send"); exit(1); }
	for (;;) {
		long r = recv(sk, b, sizeof b, 0);
		if (r <= 0) return;
		unsigned left = (unsigned)r;
		for (struct nlmsghdr *h = (void *)b; NLMSG_OK(h, left); h = NLMSG_NEXT(h, left)) {
			if (h->nlmsg_type == NLMSG_DONE || h->nlmsg_type == NLMSG_ERROR) return;
			each(NLMSG_DATA(h), (int)(h->nlmsg_len - NLMSG_HDRLEN));
		}
	}
}

static void on_unix(void *m, int len) {
	struct unix_diag_msg *u = m;
	for (char *p = (char *)(u + 1), *e = (char *)m + len; p + 8 <= e;) {
		unsigned short l = *(unsigned short *)p, t = *(unsigned short *)(p + 2);
		if (t == UNIX_DIAG_PEER) tie(u->udiag_ino, *(uint32_t *)(p + 4));
		p += (l + 3) & ~3;
	}
}

static void on_inet(void *m, int len) {
	struct inet_diag_msg *d = m;
	(void)len;
	if (!d->id.idiag_dport || !d->idiag_inode) return;
	if (en > emask / 2) { en++; return; }
	struct end k = {0}, r = {0};
	memcpy(k.t.a, d->id.idiag_src, 16); memcpy(k.t.b, d->id.idiag_dst, 16);
	k.t.ap = d->id.idiag_sport; k.t.bp = d->id.idiag_dport; k.ino = d->idiag_inode;
	memcpy(r.t.a, k.t.b, 16); memcpy(r.t.b, k.t.a, 16); r.t.ap = k.t.bp; r.t.bp = k.t.ap;
	struct end *o = find_end(&r.t);
	if (o->ino) { tie(k.ino, o->ino); tie(o->ino, k.ino); }
	struct end *s = find_end(&k.t);
	if (!s->ino) en++;
	*s = k;
}

// sockets asks for the tables that hold sockets of the process, no others.
static void sockets(void) {
	int unixes = 0, tcp = 0, udp = 0;
	for (long i = 0; i < n; i++) {
		unixes |= own[i].protocol[0] == 'U' && own[i].protocol[1] == 'N';
		tcp |= own[i].protocol[0] == 'T';
		udp |= own[i].protocol[0] == 'U' && own[i].protocol[1] == 'D';
	}
	struct { struct nlmsghdr h; struct unix_diag_req q; } u = {
		{sizeof u, SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST | NLM_F_DUMP, 0, 0},
		{.sdiag_family = AF_UNIX, .udiag_states = -1u, .udiag_show = UDIAG_SHOW_PEER | UDIAG_SHOW_NAME | UDIAG_SHOW_RQLEN}};
	if (unixes) dump(&u, sizeof u, on_unix);
	static const struct { unsigned char f, p; } which[] = {{AF_INET, IPPROTO_TCP}, {AF_INET6, IPPROTO_TCP}, {AF_INET, IPPROTO_UDP}, {AF_INET6, IPPROTO_UDP}};
	for (int i = 0; i < 4; i++) {
		if (!(i < 2 ? tcp : udp)) continue;
		struct { struct nlmsghdr h; struct inet_diag_req_v2 q; } t = {
			{sizeof t, SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST | NLM_F_DUMP, 0, 0},
			{.sdiag_family = which[i].f, .sdiag_protocol = which[i].p, .idiag_states = -1u}};
		dump(&t, sizeof t, on_inet);
	}
}

static uint64_t field(const char *b, const char *key, int base) {
	const char *p = strstr(b, key);
	return p ? strtoull(p + strlen(key), NULL, base) : 0;
}

static void mine(int dir, int info, const char *name) {
	char link[4096], b[1024], path[64];
	long l = readlinkat(dir, name, link, sizeof link - 1);
	if (l < 0) return;
	looked++;
	link[l] = 0;
	if (n == cap) own = realloc(own, (size_t)(cap = cap * 2 + 1024) * sizeof *own);
	struct own *o = &own[n++];
	memset(o, 0, sizeof *o);
	o->fd = atoi(name);
	if (room - used < l) arena = realloc(arena, (size_t)(room = room * 2 + l + 65536));
	memcpy(arena + used, link, (size_t)l);
	o->name = used; o->len = l; used += l;
	struct stat st;
	if (!fstatat(dir, name, &st, 0)) o->mode = st.st_mode, o->ino = st.st_ino;
	o->kind = S_ISSOCK(o->mode) ? 's' : S_ISFIFO(o->mode) ? 'p' : 'f';
	long k = slurp(info, name, b, sizeof b - 1);
	if (k > 0) {
		b[k] = 0;
		o->pos = field(b, "pos:\t", 10);
		o->flags = field(b, "flags:\t", 8);
	}
	if (o->kind == 's') {
		snprintf(path, sizeof path, "/proc/%d/fd/%s", target, name);
		getxattr(path, "system.sockprotoname", o->protocol, sizeof o->protocol);
	}
}

static void each(int dir, void (*f)(int, int, const char *), int with) {
	static char e[1 << 16];
	for (long h; (h = syscall(SYS_getdents64, dir, e, sizeof e)) > 0;)
		for (char *q = e; q < e + h; q += ((struct dent *)q)->len)
			if (is_num(((struct dent *)q)->name)) f(dir, with, ((struct dent *)q)->name);
}

static void theirs(int dir, int info, const char *name) {
	(void)info;
	char link[4096];
	long l = readlinkat(dir, name, link, sizeof link);
	if (l < 0) return;
	looked++;
	const char *np;
	struct slot *s;
	if (l > 8 && !memcmp(link, "socket:[", 8)) np = link + 8, s = slot(num(&np), 's');
	else if (l > 6 && !memcmp(link, "pipe:[", 6)) np = link + 6, s = slot(num(&np), 'p');
	else return;
	if (s->val) held++;
}

static void scan(void) {
	static char d[1 << 18], path[32], name[16];
	n = used = held = looked = 0;
	snprintf(name, sizeof name, "%d", target);
	int dir = openat(procfd, join(path, name, "fd"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int info = openat(procfd, join(path, name, "fdinfo"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0 || info < 0) { perror(path); exit(1); }
	each(dir, mine, info);
	close(dir);
	close(info);
	unsigned want = 1024;
	while (want < 4 * (unsigned)n) want *= 2;
	if (want > mask + 1 || !tab) tab = realloc(tab, want * sizeof *tab), mask = want - 1;
	memset(tab, 0, (mask + 1) * sizeof *tab);
	want = 1024; // by what the scan before found: the first one only warms up
	while (want < 4 * en) want *= 2;
	if (want > emask + 1 || !ends) ends = realloc(ends, want * sizeof *ends), emask = want - 1;
	memset(ends, 0, (emask + 1) * sizeof *ends);
	en = 0;
	for (long i = 0; i < n; i++)
		if (own[i].kind != 'f') slot(own[i].ino, own[i].kind)->val = i + 1;
	sockets();
	lseek(procfd, 0, SEEK_SET);
	for (long g; (g = syscall(SYS_getdents64, procfd, d, sizeof d)) > 0;)
		for (char *p = d; p < d + g; p += ((struct dent *)p)->len) {
			struct dent *x = (void *)p;
			if (!is_num(x->name) || !strcmp(x->name, name)) continue;
			dir = openat(procfd, join(path, x->name, "fd"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
			if (dir < 0) continue;
			each(dir, theirs, -1);
			close(dir);
		}
}

int main(int argc, char **argv) {
	if (argc != 3) return 2;
	target = atoi(argv[1]);
	procfd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	sk = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
	job(scan, atoi(argv[2]), 0, &n, &held);
	return 0;
}
