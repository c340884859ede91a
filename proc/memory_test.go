package proc

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// holes maps 24 pages of which page 4 and those from 20 on cannot be read, and
// returns their address. Byte i is i*7+i/4096.
func holes() uint64 {
	data := must2(unix.Mmap(-1, 0, 24<<12, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON))
	for i := range data {
		data[i] = byte(i*7 + i>>12)
	}
	must(unix.Mprotect(data[4<<12:5<<12], unix.PROT_NONE))
	address := uintptr(unsafe.Pointer(&data[0]))
	if _, _, e := unix.Syscall(unix.SYS_MUNMAP, address+20<<12, 4<<12, 0); e != 0 {
		must(e)
	}
	return uint64(address)
}

func addressOf(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(&b[0]))) }

func init() { targets["holes"] = func([]string) { fact("ADDRESS", holes()) } }

func TestReadMemory(t *testing.T) {
	tg := startTarget(t, nil, "holes")
	p := openLive(t, tg.pid())
	base := uint64(tg.fact("ADDRESS"))
	want := make([]byte, 24<<12)
	for i := range want {
		want[i] = byte(i*7 + i>>12)
	}
	const page = 4096
	for _, c := range []struct {
		name         string
		from, length uint64
		got          uint64
		err          error
	}{
		{"a byte", 17, 1, 1, nil},
		{"a page", page, page, page, nil},
		{"over a border", page - 3, 7, 7, nil},
		{"up to the hole", 0, 4 * page, 4 * page, nil},
		{"into the hole", 0, 4*page + 1, 4 * page, nil},
		{"through the hole", 100, 10 * page, 4*page - 100, nil},
		{"last byte before the hole", 4*page - 1, 2, 1, nil},
		{"in the hole", 4 * page, 8, 0, ErrUnmapped},
		{"last byte of the hole", 5*page - 1, 100, 0, ErrUnmapped},
		{"after the hole", 5 * page, 100, 100, nil},
		{"many pages, then none", 5*page + 1, 19 * page, 15*page - 1, nil},
		{"unmapped", 20 * page, 8, 0, ErrUnmapped},
	} {
		buf := bytes.Repeat([]byte{0xee}, int(c.length)+1)
		n, err := p.ReadMemory(base+c.from, buf[:c.length])
		if uint64(n) != c.got || !errors.Is(err, c.err) {
			t.Errorf("%s: %d bytes, %v, want %d, %v", c.name, n, err, c.got, c.err)
			continue
		}
		if !bytes.Equal(buf[:n], want[c.from:c.from+c.got]) {
			t.Errorf("%s: wrong bytes", c.name)
		}
		if buf[c.length] != 0xee {
			t.Errorf("%s: wrote past the buffer", c.name)
		}
	}
}

func TestReadMemoryOddAddresses(t *testing.T) {
	p := openLive(t, startTarget(t, nil, "idle").pid())
	for _, address := range []uint64{0, 1, 0x7ffffffff000, 0x0000800000000000, 0x8000000000000000, 0xffff800000000000,
		0xffffffffff600000, 0xfffffffffffff000, 1<<64 - 1} {
		n, err := p.ReadMemory(address, make([]byte, 64<<10))
		if n != 0 || !errors.Is(err, ErrUnmapped) {
			t.Errorf("%#x: %d bytes, %v, want ErrUnmapped", address, n, err)
		}
	}
	if n, err := p.ReadMemory(0, nil); n != 0 || err != nil {
		t.Errorf("no bytes asked for: %d, %v", n, err)
	}
}

func TestReadMemoryDenied(t *testing.T) {
	needRoot(t)
	nobody := &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	p := openLive(t, startTarget(t, nobody, "idle").pid())
	maps, err := p.ReadMaps(nil)
	if err != nil || len(maps) == 0 {
		t.Fatalf("%d mappings, %v", len(maps), err)
	}
	// CAP_PERFMON alone opens maps and environ on newer kernels (may_access_mm).
	withoutCaps(t, []int{unix.CAP_SYS_PTRACE, unix.CAP_SYS_ADMIN, unix.CAP_PERFMON}, func() {
		n, err := p.ReadMemory(maps[0].Start, make([]byte, 8))
		if n != 0 || !errors.Is(err, fs.ErrPermission) {
			t.Errorf("%d bytes, %v, want it denied", n, err)
		}
		if _, err := p.ReadMaps(nil); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("maps: %v, want it denied", err)
		}
		if _, _, err := p.ReadEnvironment(); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("environment: %v, want it denied", err)
		}
		c, err := p.ReadContext()
		if err != nil || c.Cwd.Known() || c.ExecutableState != ExecutableUnreadable || c.Namespaces != nil || !c.UIDs.Known() {
			t.Errorf("context: %+v, %v", c, err)
		}
	})
}

// Each piece of a read that went over more than one call is in its place.
func TestReadMemoryOfSelf(t *testing.T) {
	p := openLive(t, int32(os.Getpid()))
	data, err := unix.Mmap(-1, 0, 64<<10, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Munmap(data)
	for i := range data {
		data[i] = byte(i >> 8)
	}
	address := uint64(uintptr(unsafe.Pointer(&data[0])))
	buf := make([]byte, len(data))
	if n, err := p.ReadMemory(address, buf); err != nil || !bytes.Equal(buf[:n], data) {
		t.Errorf("%d bytes, %v", n, err)
	}
	if n := testing.AllocsPerRun(20, func() { p.ReadMemory(address, buf) }); n != 0 {
		t.Errorf("allocates %v times", n)
	}
}
