package ptrace

import (
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"procinsh/proc"
)

// signalFrame builds what the kernel writes on an alternate stack at sp.
func signalFrame(stack, size, before uint64, cs uint16) []byte {
	b := make([]byte, 400)
	put := func(at int, v uint64) { binary.LittleEndian.PutUint64(b[at:], v) }
	put(0, 7)
	put(16, stack)
	put(32, size)
	put(160, before)
	put(184, uint64(cs))
	return b
}

func TestInterruptedStack(t *testing.T) {
	const sp, alt = 0x7000_1000, 0x7000_0000
	frame := signalFrame(alt, 0x4000, 0x5000_0100, 0x33)
	pad := func(n int) []byte { return append(slices.Repeat([]byte{0xff}, n), frame...) }
	for _, c := range []struct {
		name     string
		b        []byte
		addr, sp uint64
		want     uint64
	}{
		{"at RSP", frame, sp, sp, 0x5000_0100},
		{"behind a red zone", pad(128), sp - 128, sp, 0x5000_0100},
		{"deeper", pad(128 + 800), sp - 128, sp, 0x5000_0100},
		{"unaligned RSP", pad(128), sp - 124, sp + 1, 0x5000_0100},
		{"beyond what is searched", pad(maxSignalFrame + 8), sp, sp, 0},
		{"of another stack", signalFrame(alt+0x100000, 0x4000, 0x5000_0100, 0x33), sp, sp, 0},
		{"within the same stack", signalFrame(alt, 0x4000, sp+64, 0x33), sp, sp, 0},
		{"32-bit", signalFrame(alt, 0x4000, 0x5000_0100, 0x23), sp, sp, 0},
		{"cut", frame[:191], sp, sp, 0},
		{"nothing", nil, sp, sp, 0},
		{"RSP below", frame, sp, sp - 8, 0},
		{"RSP behind", frame, sp, sp + 1<<20, 0},
	} {
		if got := interruptedStack(c.b, c.addr, c.sp); got != c.want {
			t.Errorf("%s: got %#x, want %#x", c.name, got, c.want)
		}
	}
}

func FuzzInterruptedStack(f *testing.F) {
	f.Add(signalFrame(0x1000, 0x4000, 0x9000, 0x33), uint64(0x2000), uint64(0x2000))
	f.Add([]byte{}, uint64(0), ^uint64(0))
	f.Fuzz(func(t *testing.T, b []byte, addr, sp uint64) {
		got := interruptedStack(b, addr, sp)
		if got == 0 {
			return
		}
		var word [8]byte
		binary.LittleEndian.PutUint64(word[:], got)
		for i := 0; i+8 <= len(b); i++ {
			if [8]byte(b[i:i+8]) == word {
				return
			}
		}
		t.Errorf("%#x is nowhere in the stack", got)
	})
}

func TestUserRegs(t *testing.T) {
	var long tracee
	long.size = 27 * 8
	for i := range long.regs {
		long.regs[i] = uint64(i + 1)
	}
	r, code32 := long.userRegs()
	if code32 || r.R15 != 1 || r.Rbp != 5 || r.Rax != 11 || r.Orig_rax != 16 || r.Rip != 17 || r.Rsp != 20 || r.Gs != 27 {
		t.Errorf("64-bit: %+v, %t", r, code32)
	}
	if ip, sp := long.position(); ip != r.Rip || sp != r.Rsp {
		t.Errorf("position %#x %#x", ip, sp)
	}
	long.regs[17] = userCS32
	if _, code32 = long.userRegs(); !code32 {
		t.Error("CS of 32-bit code in the long form")
	}
	var short tracee
	short.size = 17 * 4
	for i := range 17 {
		short.regs[i/2] |= uint64(0x80000000+i) << (32 * (i % 2))
	}
	r, code32 = short.userRegs()
	if !code32 || r.Rbx != 0x80000000 || r.Rax != 0x80000006 || r.Orig_rax != 0x8000000b || r.Rip != 0x8000000c || r.Cs != 0x8000000d || r.Rsp != 0x8000000f || r.R8 != 0 {
		t.Errorf("32-bit: %+v, %t", r, code32)
	}
	if ip, sp := short.position(); ip != r.Rip || sp != r.Rsp {
		t.Errorf("position %#x %#x", ip, sp)
	}
}

func TestMergeMaps(t *testing.T) {
	m := func(start, end uint64, path string) proc.Mapping {
		return proc.Mapping{Start: start, End: end, Path: path}
	}
	before := []proc.Mapping{m(1, 5, "a"), m(10, 20, "b"), m(30, 40, "c"), m(60, 70, "d")}
	after := []proc.Mapping{m(1, 5, "a"), m(15, 25, "B"), m(50, 55, "e")}
	got := mergeMaps(before, after)
	want := []proc.Mapping{m(1, 5, "a"), m(15, 25, "B"), m(30, 40, "c"), m(50, 55, "e"), m(60, 70, "d")}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := mergeMaps(before, nil); !slices.Equal(got, before) {
		t.Errorf("nothing after: got %v", got)
	}
}

func TestNote(t *testing.T) {
	entry := func(name string) []byte {
		b := make([]byte, (19+len(name)+1+7)&^7)
		b[16] = byte(len(b))
		copy(b[19:], name)
		return b
	}
	tr := &tracer{list: make([]tracee, 0, 3), slots: make([]int32, 16), scans: 1}
	if !tr.note(slices.Concat(entry("."), entry(".."), entry("17"), entry("4194304"), entry("17"))) {
		t.Fatal("full too early")
	}
	if len(tr.list) != 2 || tr.list[0].tid != 17 || tr.list[1].tid != 4194304 || tr.list[0].seen != 1 {
		t.Errorf("list %+v", tr.list)
	}
	tr.list[0].state = isEnded
	tr.scans++
	if !tr.note(slices.Concat(entry("17"), entry("18"))) || tr.list[0].state != isFound || len(tr.list) != 3 {
		t.Errorf("a number in use again: %+v", tr.list)
	}
	if tr.note(entry("19")) {
		t.Error("a fourth thread in a list of three")
	}
	for _, c := range []struct {
		text string
		want int32
	}{{"0", 0}, {"12\x00x", 12}, {"x1", 0}, {"", 0}, {"2147483647", 1<<31 - 1}, {"2147483648", 0}, {"99999999999999999999999", 0}} {
		if got := number([]byte(c.text)); got != c.want {
			t.Errorf("number %q: got %d, want %d", c.text, got, c.want)
		}
	}
}

func TestLimits(t *testing.T) {
	for _, c := range []struct {
		n, busy, option, want, wantBusy int
	}{
		{1, 0, 0, 64 << 10, 64 << 10}, {64, 0, 0, 64 << 10, 64 << 10}, {64, 64, 0, 64 << 10, 16 << 10}, {16, 16, 0, 64 << 10, 64 << 10},
		{512, 1, 0, 16 << 10, 16 << 10}, {4096, 4096, 0, 4096, 4096}, {4, 1, 4096, 4096, 4096},
	} {
		tr := &tracer{busy: c.busy, stackMax: c.option}
		tr.limits(c.n)
		if tr.limit != c.want || tr.limitBusy != c.wantBusy {
			t.Errorf("%d threads, %d run: got %d and %d, want %d and %d", c.n, c.busy, tr.limit, tr.limitBusy, c.want, c.wantBusy)
		}
		if c.n*tr.limit > maxCopied {
			t.Errorf("%d threads: %d bytes", c.n, c.n*tr.limit)
		}
	}
}

func TestPaused(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		name         string
		t            *tracer
		all, running time.Duration
	}{
		{"nothing stood", &tracer{from: 1 * ms, asked: 2 * ms}, 0, 0},
		{"all slept", &tracer{from: 1 * ms, asked: 2 * ms, askedBusy: 3 * ms, until: 5 * ms}, 3 * ms, 0},
		{"some ran", &tracer{from: 1 * ms, asked: 2 * ms, askedBusy: 4 * ms, untilBusy: 5 * ms, until: 7 * ms}, 5 * ms, 1 * ms},
		{"one stood before it was asked", &tracer{from: 1 * ms, since: 1 * ms, asked: 2 * ms, askedBusy: 4 * ms, untilBusy: 5 * ms, until: 7 * ms}, 6 * ms, 4 * ms},
		{"given up before the burst", &tracer{from: 1 * ms, until: 3 * ms}, 2 * ms, 0},
	} {
		if all, running := c.t.paused(); all != c.all || running != c.running {
			t.Errorf("%s: got %v and %v, want %v and %v", c.name, all, running, c.all, c.running)
		}
	}
}
