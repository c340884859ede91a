// fdhost LOOPS: the limit for a scan of every descriptor of the host: each link is
// read, the sock_diag dumps of UNIX, TCP and UDP are joined by inode.
#include "util.h"
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <netinet/in.h>
#include <sys/socket.h>

struct row {
	int pid, fd;
	char kind;
	uint64_t ino, peer;
	long at, len, owner;
};

static struct row *rows;
static long n, cap, used, room, joined;
static char *arena;
static int procfd, sk;

// open addressing, inode to row number and 1
static struct slot { uint64_t key; long val; } *tab;
static unsigned mask;
static struct slot *slot(uint64_t k) {
	unsigned i = (unsigned)((k * 0x9E3779B97F4A7C15ull) >> 40) & mask;
	while (tab[i].val && tab[i].key != k) i = (i + 1) & mask;
	return &tab[i];
}

struct end { struct { uint32_t a[4], b[4]; uint16_t ap, bp; } t; uint64_t ino; };
static struct end *ends;
static unsigned en;
static struct end *find_end(const void *t) {
	const uint32_t *w = t;
	uint64_t h = 0;
	for (int i = 0; i < 9; i++) h = (h ^ w[i]) * 0x9E3779B97F4A7C15ull, h ^= h >> 29;
	unsigned i = (unsigned)h & mask;
	while (ends[i].ino && memcmp(&ends[i].t, t, sizeof ends[i].t)) i = (i + 1) & mask;
	return &ends[i];
}

static void tie(uint64_t ino, uint64_t peer) {
	struct slot *s = slot(ino), *p = slot(peer);
	if (!s->val) return;
	rows[s->val - 1].peer = peer;
	if (p->val) { rows[s->val - 1].owner = p->val; joined++; }
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
	if (!d->id.idiag_dport || !d->idiag_inode || en > mask / 2) return;
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

static void sockets(void) {
	struct { struct nlmsghdr h; struct unix_diag_req q; } u = {
		{sizeof u, SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST | NLM_F_DUMP, 0, 0},
		{.sdiag_family = AF_UNIX, .udiag_states = -1u, .udiag_show = UDIAG_SHOW_PEER}};
	dump(&u, sizeof u, on_unix);
	static const struct { unsigned char f, p; } which[] = {{AF_INET, IPPROTO_TCP}, {AF_INET6, IPPROTO_TCP}, {AF_INET, IPPROTO_UDP}, {AF_INET6, IPPROTO_UDP}};
	for (int i = 0; i < 4; i++) {
		struct { struct nlmsghdr h; struct inet_diag_req_v2 q; } t = {
			{sizeof t, SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST | NLM_F_DUMP, 0, 0},
			{.sdiag_family = which[i].f, .sdiag_protocol = which[i].p, .idiag_states = -1u}};
		dump(&t, sizeof t, on_inet);
	}
}

static void one(int dir, int pid, const char *name) {
	char link[4096];
	long l = readlinkat(dir, name, link, sizeof link);
	if (l < 0) return;
	if (n == cap) rows = realloc(rows, (size_t)(cap = cap * 2 + 4096) * sizeof *rows);
	struct row *r = &rows[n++];
	memset(r, 0, sizeof *r);
	const char *np = name;
	r->pid = pid;
	r->fd = (int)num(&np);
	if (l > 8 && !memcmp(link, "socket:[", 8)) { np = link + 8; r->kind = 's'; r->ino = num(&np); return; }
	if (l > 6 && !memcmp(link, "pipe:[", 6)) { np = link + 6; r->kind = 'p'; r->ino = num(&np); return; }
	if (room - used < l) arena = realloc(arena, (size_t)(room = room * 2 + l + 65536));
	memcpy(arena + used, link, (size_t)l);
	r->kind = 'f'; r->at = used; r->len = l;
	used += l;
}

static void scan(void) {
	static char d[1 << 18], e[1 << 16], path[32];
	n = used = joined = 0;
	lseek(procfd, 0, SEEK_SET);
	for (long g; (g = syscall(SYS_getdents64, procfd, d, sizeof d)) > 0;)
		for (char *p = d; p < d + g; p += ((struct dent *)p)->len) {
			struct dent *x = (void *)p;
			if (!is_num(x->name)) continue;
			int dir = openat(procfd, join(path, x->name, "fd"), O_RDONLY | O_DIRECTORY | O_CLOEXEC), pid = atoi(x->name);
			if (dir < 0) continue;
			for (long h; (h = syscall(SYS_getdents64, dir, e, sizeof e)) > 0;)
				for (char *q = e; q < e + h; q += ((struct dent *)q)->len)
					if (is_num(((struct dent *)q)->name)) one(dir, pid, ((struct dent *)q)->name);
			close(dir);
		}
	unsigned want = 4096;
	while ((long)want < n * 2) want *= 2;
	if (want > mask + 1 || !tab) {
		tab = realloc(tab, want * sizeof *tab);
		ends = realloc(ends, want * sizeof *ends);
		mask = want - 1;
	}
	memset(tab, 0, (mask + 1) * sizeof *tab);
	memset(ends, 0, (mask + 1) * sizeof *ends);
	en = 0;
	for (long i = 0; i < n; i++)
		if (rows[i].kind == 's') {
			struct slot *s = slot(rows[i].ino);
			s->key = rows[i].ino;
			s->val = i + 1;
		}
	sockets();
	joined = 0;
	for (long i = 0; i < n; i++)
		if (rows[i].kind == 's') {
			struct row *of = &rows[slot(rows[i].ino)->val - 1];
			rows[i].peer = of->peer;
			joined += (rows[i].owner = of->owner) > 0;
		}
}

int main(int argc, char **argv) {
	if (argc != 2) return 2;
	procfd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	sk = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
	job(scan, atoi(argv[1]), 0, &n, &joined);
	return 0;
}
