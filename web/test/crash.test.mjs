import assert from 'node:assert/strict';
import test from 'node:test';
import { load } from './bundle.mjs';

const { answerTo, crashIn } = await load('process/crash.ts');
const { regionsOf } = await load('process/maps.ts');

const map = (start, end, permissions, pathname, file_offset = '0x0') => ({
  start,
  end,
  permissions,
  readable: permissions[0] === 'r',
  writable: permissions[1] === 'w',
  executable: permissions[2] === 'x',
  private: permissions[3] === 'p',
  file_offset,
  inode: pathname?.startsWith('/') ? '326269' : '0',
  pathname,
});

const regions = regionsOf([
  map('0x0000560000000000', '0x0000560000002000', 'r-xp', '/opt/a b/app'),
  map('0x0000560000400000', '0x0000560000500000', 'rw-p', '[heap]'),
  map('0x00007fb07241e000', '0x00007fb072444000', 'r--p', '/usr/lib/libc.so.6'),
  map('0x00007fb072444000', '0x00007fb07259a000', 'r-xp', '/usr/lib/libc.so.6', '0x26000'),
  map('0xffffffffff600000', '0xffffffffff601000', '--xp', '[vsyscall]'),
]);

const kernel = (ip, rest) =>
  `app[71]: segfault at 0 ip ${ip} sp 00007ffe65cdf0d0 error 4${rest} likely on CPU 0 (core 0, socket 0)`;

test('the address of a line', () => {
  const cases = [
    // A line of the kernel's log from Linux 6.18, copied.
    [kernel('00007fcd907361a0', ' in libc.so.6[d51a0,7fcd90687000+156000]'), 0x7fcd907361a0n, ['libc.so.6', 0xd51a0n]],
    // Older: without the byte of the file.
    ['app[9]: segfault at 10 ip 00007f01 sp 00007ffd error 6 in libfoo.so[7f00+1000]', 0x7f01n, null],
    [
      'traps: app[5] general protection fault ip:55d0c1a01234 sp:7ffe0 error:0 in a b[234,55d0c1a00000+2000]',
      0x55d0c1a01234n,
      ['a b', 0x234n],
    ],
    [kernel('0000000000000000', ''), 0n, null],
    ['#3  0x00007fb0724a9f31 in raise () from /lib/libc.so.6', 0x7fb0724a9f31n, null],
    ['/usr/lib/libfoo.so(work+0x1d) [0x7fb0724a9f31]', 0x7fb0724a9f31n, null],
    ['0x7FB0724A9F31', 0x7fb0724a9f31n, null],
    ['  7fb0724a9f31 ', 0x7fb0724a9f31n, null],
    ['deadbeef', 0xdeadbeefn, null],
    ['abc', null, null],
    ['the cafe is closed', null, null],
    ['0x12345678901234567', null, null],
    ['', null, null],
  ];
  for (const [line, address, claim] of cases) {
    const got = crashIn(line);
    assert.equal(got?.address ?? null, address, line);
    assert.deepEqual(got?.claim ? [got.claim.name, got.claim.offset] : null, claim, line);
  }
});

test('what has it here', () => {
  const cases = [
    [
      '7fb0724a9f31',
      '0x00007fb0724a9f31 is in /usr/lib/libc.so.6 (code, r-xp), byte 0x8bf31 of the file.',
      0x7fb0724a9f31n,
    ],
    ['0x560000400010', '0x0000560000400010 is in [heap] (heap, rw-p), 0x10 from its start.', 0x560000400010n],
    ['0x560000002000', '0x0000560000002000 is not mapped here: 0x0 past the end of app, 0x3fe000 before heap.', null],
    ['0x1000', '0x0000000000001000 is not mapped here: 0x55fffffff000 before app.', null],
    ['0xffffffffffffffff', '0xffffffffffffffff is not mapped here: 0x9fefff past the end of vsyscall.', null],
    // Of this process: the address and the file agree.
    [
      kernel('00007fb0724a9f31', ' in libc.so.6[8bf31,7fb072444000+156000]'),
      '0x00007fb0724a9f31 is in /usr/lib/libc.so.6 (code, r-xp), byte 0x8bf31 of the file.',
      0x7fb0724a9f31n,
    ],
    // Of one that ended: the file is here too, elsewhere.
    [
      kernel('00007fcd907361a0', ' in libc.so.6[d51a0,7fcd90687000+156000]'),
      'The line names libc.so.6, byte 0xd51a0 of the file. In this process that is at 0x00007fb0724f31a0.',
      0x7fb0724f31a0n,
    ],
    // The same address has another file here: the line is right, not the address.
    [
      kernel('0000560000000100', ' in libc.so.6[26100,560000000000+156000]'),
      'The line names libc.so.6, byte 0x26100 of the file. In this process that is at 0x00007fb072444100.',
      0x7fb072444100n,
    ],
    [
      kernel('00007fcd907361a0', ' in libgone.so[51a0,7fcd90731000+15000]'),
      'The line names libgone.so, byte 0x51a0 of the file. This process has not mapped it.',
      null,
    ],
    ['no address', 'There is no address in that: 0x7f…, or a line of a log with one.', null],
  ];
  for (const [line, text, at] of cases) assert.deepEqual(answerTo(line, regions), { text, at }, line);
});
