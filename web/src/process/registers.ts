// What a register's value means beside where it points: an error number, flags, a
// descriptor. Pure.

import type { SnapshotThread } from '../wire.gen';

// errno(3), 1 to 133; "-" has no name.
const ERRNO =
  'EPERM ENOENT ESRCH EINTR EIO ENXIO E2BIG ENOEXEC EBADF ECHILD EAGAIN ENOMEM EACCES EFAULT ENOTBLK EBUSY EEXIST EXDEV ENODEV ENOTDIR EISDIR EINVAL ENFILE EMFILE ENOTTY ETXTBSY EFBIG ENOSPC ESPIPE EROFS EMLINK EPIPE EDOM ERANGE EDEADLK ENAMETOOLONG ENOLCK ENOSYS ENOTEMPTY ELOOP - ENOMSG EIDRM ECHRNG EL2NSYNC EL3HLT EL3RST ELNRNG EUNATCH ENOCSI EL2HLT EBADE EBADR EXFULL ENOANO EBADRQC EBADSLT - EBFONT ENOSTR ENODATA ETIME ENOSR ENONET ENOPKG EREMOTE ENOLINK EADV ESRMNT ECOMM EPROTO EMULTIHOP EDOTDOT EBADMSG EOVERFLOW ENOTUNIQ EBADFD EREMCHG ELIBACC ELIBBAD ELIBSCN ELIBMAX ELIBEXEC EILSEQ ERESTART ESTRPIPE EUSERS ENOTSOCK EDESTADDRREQ EMSGSIZE EPROTOTYPE ENOPROTOOPT EPROTONOSUPPORT ESOCKTNOSUPPORT EOPNOTSUPP EPFNOSUPPORT EAFNOSUPPORT EADDRINUSE EADDRNOTAVAIL ENETDOWN ENETUNREACH ENETRESET ECONNABORTED ECONNRESET ENOBUFS EISCONN ENOTCONN ESHUTDOWN ETOOMANYREFS ETIMEDOUT ECONNREFUSED EHOSTDOWN EHOSTUNREACH EALREADY EINPROGRESS ESTALE EUCLEAN ENOTNAM ENAVAIL EISNAM EREMOTEIO EDQUOT ENOMEDIUM EMEDIUMTYPE ECANCELED ENOKEY EKEYEXPIRED EKEYREVOKED EKEYREJECTED EOWNERDEAD ENOTRECOVERABLE ERFKILL EHWPOISON'.split(
    ' ',
  );

// errnoName names what a system call gives back as -1 to -133; null for all else.
export function errnoName(value: bigint): string | null {
  const n = Number(BigInt.asIntN(64, value));
  if (n >= 0) return null;
  const name = ERRNO[-n - 1];
  return name === undefined || name === '-' ? null : name;
}

// Bits of RFLAGS by name, the lowest first.
const FLAGS: readonly (readonly [number, string])[] = [
  [0, 'CF'],
  [2, 'PF'],
  [4, 'AF'],
  [6, 'ZF'],
  [7, 'SF'],
  [8, 'TF'],
  [9, 'IF'],
  [10, 'DF'],
  [11, 'OF'],
];

export function flagsText(value: bigint): string {
  return FLAGS.filter(([bit]) => (value >> BigInt(bit)) & 1n)
    .map(([, name]) => name)
    .join(' ');
}

// System calls whose first argument is a descriptor, and so RDI while one stands in them.
const FD_CALLS = new Set(
  (
    'read write pread64 pwrite64 readv writev preadv pwritev preadv2 pwritev2 close fstat lseek ioctl fcntl flock ' +
    'fsync fdatasync ftruncate fallocate getdents getdents64 fadvise64 readahead sync_file_range syncfs accept accept4 ' +
    'connect bind listen shutdown getsockopt setsockopt getsockname getpeername sendto recvfrom sendmsg recvmsg ' +
    'sendmmsg recvmmsg sendfile splice tee vmsplice epoll_ctl epoll_wait epoll_pwait epoll_pwait2 io_uring_enter ' +
    'signalfd signalfd4 timerfd_settime timerfd_gettime inotify_add_watch'
  ).split(' '),
);

// fdArgument is the descriptor that a call has as its first argument; null when it
// has none there.
export function fdArgument(call: string | null, first: string | undefined): number | null {
  if (call === null || first === undefined || !FD_CALLS.has(call)) return null;
  // The kernel takes the low 32 bits.
  const fd = Number(BigInt.asIntN(32, BigInt(first)));
  return fd >= 0 ? fd : null;
}

// fdOf is the descriptor that a stopped thread waits for or works on: a call leaves
// its first argument in RDI.
export function fdOf(thread: Pick<SnapshotThread, 'syscall' | 'registers'>): number | null {
  return fdArgument(thread.syscall, thread.registers.find((r) => r.name === 'RDI')?.value);
}
