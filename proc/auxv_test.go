package proc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// words returns the numbers as a vector of that width.
func words(bits int, numbers ...uint64) []byte {
	var b []byte
	for _, n := range numbers {
		if bits == 32 {
			b = binary.LittleEndian.AppendUint32(b, uint32(n))
		} else {
			b = binary.LittleEndian.AppendUint64(b, n)
		}
	}
	return b
}

func TestParseAuxv(t *testing.T) {
	for _, bits := range []int{32, 64} {
		got, ok := parseAuxv(words(bits, 33, 0xf7fc1000, 16, 0x178bfbff, 99, 5, 17, 100, 0, 0, 0, 0), bits)
		want := []AuxvEntry{
			{Tag: 33, Value: 0xf7fc1000, Name: "AT_SYSINFO_EHDR", Kind: "address"},
			{Tag: 16, Value: 0x178bfbff, Name: "AT_HWCAP", Kind: "bitmask"},
			{Tag: 99, Value: 5, Name: "AT_UNKNOWN_99", Kind: "unknown"},
			{Tag: 17, Value: 100, Name: "AT_CLKTCK", Kind: "number"},
			{Tag: 0, Value: 0, Name: "AT_NULL", Kind: "number"}, // what follows is no part of it
		}
		if !ok || len(got) != len(want) {
			t.Errorf("%d bits: got %+v, %v", bits, got, ok)
			continue
		}
		for i, e := range got {
			if (e.Description == "") != (e.Kind == "unknown") {
				t.Errorf("%s is described as %q", e.Name, e.Description)
			}
			e.Description = ""
			if e != want[i] {
				t.Errorf("%d bits: got %+v, want %+v", bits, e, want[i])
			}
		}
		for _, text := range [][]byte{nil, words(bits, 3, 5), words(bits, 3, 5, 0), words(bits, 3, 5, 0, 0)[:len(words(bits, 1))*4-1]} {
			if got, ok := parseAuxv(text, bits); ok || got != nil {
				t.Errorf("%d bits: %x has no end, got %+v", bits, text, got)
			}
		}
	}
	if got, ok := parseAuxv(words(64, 1<<64-1, 1<<64-1, 0, 0), 64); !ok || got[0].Name != "AT_UNKNOWN_18446744073709551615" {
		t.Errorf("largest tag: %+v, %v", got, ok)
	}
}

func TestAuxvTags(t *testing.T) {
	names := map[string]bool{}
	for tag, v := range auxvTags {
		if !strings.HasPrefix(v.name, "AT_") || names[v.name] || v.description == "" ||
			!slices.Contains([]string{"number", "address", "bitmask"}, v.kind) {
			t.Errorf("tag %d: %+v", tag, v)
		}
		names[v.name] = true
	}
}

func TestELFBits(t *testing.T) {
	ident := func(class, data byte) []byte {
		return append([]byte{0x7f, 'E', 'L', 'F', class, data, 1}, make([]byte, 9)...)
	}
	for _, c := range []struct {
		ident []byte
		bits  int
		text  string
	}{
		{ident(2, 1), 64, ""},
		{ident(1, 1), 32, ""},
		{ident(2, 2), 0, "big-endian"},
		{ident(1, 2), 0, "big-endian"},
		{ident(2, 0), 0, "byte order"},
		{ident(3, 1), 0, "class"},
		{ident(2, 1)[:15], 0, "no ELF header"},
		{[]byte("#!/bin/sh\n#     "), 0, "no ELF header"},
		{nil, 0, "no ELF header"},
	} {
		bits, err := elfBits(c.ident)
		if bits != c.bits || (err == nil) != (c.text == "") || err != nil && (!errors.Is(err, ErrNotELF) || !strings.Contains(err.Error(), c.text)) {
			t.Errorf("%q: got %d, %v", c.ident, bits, err)
		}
	}
}

func TestReadAuxvLive(t *testing.T) {
	p := openLive(t, int32(startProgram(t, "/bin/sleep", []string{"sleep", "1000"}, nil).Pid))
	a, err := p.ReadAuxv()
	if err != nil || a.WordBits != 64 {
		t.Fatalf("got %+v, %v", a, err)
	}
	by := map[string]AuxvEntry{}
	for _, e := range a.Entries {
		by[e.Name] = e
	}
	if e := by["AT_EXECFN"]; e.Text != Some("/bin/sleep") || e.TextError.Known() || e.Kind != "address" {
		t.Errorf("AT_EXECFN: %+v", e)
	}
	if e := by["AT_PLATFORM"]; e.Text != Some("x86_64") {
		t.Errorf("AT_PLATFORM: %+v", e)
	}
	if by["AT_PAGESZ"].Value != 4096 || by["AT_CLKTCK"].Value != 100 || by["AT_PHENT"].Value != 56 || by["AT_EUID"].Value != uint64(os.Geteuid()) {
		t.Errorf("got %+v", a.Entries)
	}
	if last := a.Entries[len(a.Entries)-1]; last.Name != "AT_NULL" {
		t.Errorf("last is %+v", last)
	}
}

func TestReadAuxv32(t *testing.T) {
	path := compile(t, "-m32")
	c, err := os.StartProcess(path, []string{path}, &os.ProcAttr{})
	if errors.Is(err, unix.ENOEXEC) {
		t.Skip("the kernel runs no 32-bit programs")
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		c.Kill()
		c.Wait()
	}()
	p := openLive(t, int32(c.Pid))
	a, err := p.ReadAuxv()
	if err != nil || a.WordBits != 32 {
		t.Fatalf("got %+v, %v", a, err)
	}
	found := 0
	for _, e := range a.Entries {
		switch e.Name {
		case "AT_EXECFN":
			found++
			if e.Text != Some(path) || e.Value >= 1<<32 {
				t.Errorf("got %+v", e)
			}
		case "AT_SYSINFO", "AT_PHDR":
			found++
		case "AT_PHENT":
			found++
			if e.Value != 32 {
				t.Errorf("got %+v", e)
			}
		}
	}
	if found != 4 || a.Entries[len(a.Entries)-1].Tag != 0 {
		t.Errorf("got %+v", a.Entries)
	}
	maps, err := p.ReadMaps(nil)
	if err != nil || len(maps) < 4 || maps[0].Path != path || maps[len(maps)-1].End > 1<<32 {
		t.Errorf("maps: %+v, %v", maps, err)
	}
}

func init() { targets["bad-auxv"] = badAuxv }

// badAuxv gives itself a vector whose strings cannot be read.
func badAuxv([]string) {
	long := must2(unix.Mmap(-1, 0, 2<<12, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON))
	for i := range long {
		long[i] = 'x'
	}
	edge := must2(unix.Mmap(-1, 0, 2<<12, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON))
	edge[4095] = 'e'
	must(unix.Mprotect(edge[4096:], unix.PROT_NONE))
	vector := words(64, 31, 16, 15, addressOf(long), 24, addressOf(edge)+4095, 0, 0)
	// struct prctl_mm_map, include/uapi/linux/prctl.h: everything but the vector stays.
	text := string(must2(os.ReadFile("/proc/self/stat")))
	f := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	field := func(n int) uint64 { return must2(strconv.ParseUint(f[n-3], 10, 64)) }
	brk, _, _ := unix.Syscall(unix.SYS_BRK, 0, 0, 0)
	m := words(64, field(26), field(27), field(45), field(46), field(47), uint64(brk), field(28),
		field(48), field(49), field(50), field(51), addressOf(vector), uint64(len(vector))|(1<<32-1)<<32)
	must(unix.Prctl(unix.PR_SET_MM, unix.PR_SET_MM_MAP, uintptr(addressOf(m)), uintptr(len(m)), 0))
	runtime.KeepAlive(vector)
	runtime.KeepAlive(m)
}

func TestReadAuxvStrings(t *testing.T) {
	p := openLive(t, startTarget(t, nil, "bad-auxv").pid())
	a, err := p.ReadAuxv()
	if err != nil || len(a.Entries) != 4 {
		t.Fatalf("got %+v, %v", a, err)
	}
	for i, text := range []string{"no readable memory", "longer than 4096 bytes", "runs into memory"} {
		e := a.Entries[i]
		if e.Text.Known() || !strings.Contains(e.TextError.Or(""), text) || e.Value == 0 {
			t.Errorf("got %+v, want it to say %q", e, text)
		}
	}
}

// Strings that cannot be read, without the privilege to make such a vector.
func TestReadString(t *testing.T) {
	tg := startTarget(t, nil, "holes")
	p := openLive(t, tg.pid())
	base := uint64(tg.fact("ADDRESS"))
	if _, err := p.readString(base + 4<<12); !errors.Is(err, ErrUnmapped) {
		t.Errorf("in a hole: %v", err)
	}
	// Byte 4<<12-1 before the hole is not 0.
	if _, err := p.readString(base + 4<<12 - 1); err == nil || !strings.Contains(err.Error(), "runs into memory") {
		t.Errorf("into a hole: %v", err)
	}
	if s, err := p.readString(base); err != nil || s != "" {
		t.Errorf("at a NUL: %q, %v", s, err)
	}
	if s, err := p.readString(base + 1); err != nil || len(s) != 255 || s[0] != 7 {
		t.Errorf("got %q, %v", s, err)
	}
}

// The executable is read through its link, so it need not be in any directory.
func TestMemfdExecutable(t *testing.T) {
	fd, err := unix.MemfdCreate("tool with space", 0)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("/bin/sleep")
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(fd), "memfd")
	if _, err := file.Write(text); err != nil {
		t.Fatal(err)
	}
	path := fmt.Sprintf("/proc/self/fd/%d", fd)
	p := openLive(t, int32(startProgram(t, path, []string{"sleep", "1000"}, []string{"A=1"}).Pid))
	file.Close()
	const link = "/memfd:tool with space (deleted)"
	maps, err := p.ReadMaps(nil)
	if err != nil {
		t.Fatal(err)
	}
	own := 0
	for _, m := range maps {
		if strings.HasPrefix(m.Path, "/memfd:") {
			own++
			if m.Path != link || m.Deleted != Some(true) {
				t.Errorf("got %q, deleted %v", m.Path, m.Deleted)
			}
		}
	}
	if own < 4 {
		t.Errorf("%d mappings of the memfd", own)
	}
	a, err := p.ReadAuxv()
	if err != nil || a.WordBits != 64 {
		t.Fatalf("auxv: %+v, %v", a, err)
	}
	i := slices.IndexFunc(a.Entries, func(e AuxvEntry) bool { return e.Name == "AT_EXECFN" })
	if i < 0 || a.Entries[i].Text != Some(path) {
		t.Errorf("AT_EXECFN: %+v", a.Entries)
	}
	if env, _, err := p.ReadEnvironment(); err != nil || !slices.Equal(env, []EnvironmentEntry{{"A", Some("1")}}) {
		t.Errorf("environment: %v, %v", env, err)
	}
	c, err := p.ReadContext()
	if err != nil || c.Executable != Some(link) || c.ExecutableState != ExecutableMemfd {
		t.Errorf("context: %v %s, %v", c.Executable, c.ExecutableState, err)
	}
}

// In a tree of files the executable can be anything.
func TestReadAuxvExecutables(t *testing.T) {
	elf := append([]byte{0x7f, 'E', 'L', 'F', 2, 2, 1}, make([]byte, 64)...)
	for _, c := range []struct {
		name string
		make func(path string) error
		text string
	}{
		{"big-endian", func(path string) error { return os.WriteFile(path, elf, 0o644) }, "big-endian"},
		{"script", func(path string) error { return os.WriteFile(path, []byte("#!/bin/sh\n"), 0o644) }, "no ELF header"},
		{"fifo", func(path string) error { return unix.Mkfifo(path, 0o644) }, "no regular file"},
		{"directory", func(path string) error { return os.Mkdir(path, 0o755) }, "no regular file"},
	} {
		mount := t.TempDir()
		dir := filepath.Join(mount, "4242")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		writeFiles(t, dir, map[string]string{"stat": statLine(4242, 1, "x"), "auxv": string(words(64, 6, 4096, 0, 0))})
		if err := c.make(filepath.Join(dir, "exe")); err != nil {
			t.Fatal(err)
		}
		fs, err := Open(mount)
		if err != nil {
			t.Fatal(err)
		}
		p, err := fs.OpenProcess(ID{4242, 777})
		if err != nil {
			t.Fatal(err)
		}
		a, err := p.ReadAuxv()
		if a != nil || !errors.Is(err, ErrNotELF) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %+v, %v", c.name, a, err)
		}
		p.Close()
		fs.Close()
	}
}

// statLine is a stat text of a process in state S that started at tick 777.
func statLine(pid, ppid int, name string) string {
	return fmt.Sprintf("%d (%s) S %d 4000 3999 34819 4242 4194304 1 0 0 0 5 6 0 0 20 0 1 0 777 4096 100 "+
		"18446744073709551615 4096 8192 140723412213008 0 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0 0 0 0 140723412214000 140723412214020 140723412214020 140723412214100 0\n", pid, name, ppid)
}

func writeFiles(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if link, ok := strings.CutPrefix(text, "-> "); ok {
			if err := os.Symlink(link, path); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func FuzzAuxv(f *testing.F) {
	f.Add(words(64, 6, 4096, 31, 0x7ffd0000, 0, 0), true)
	f.Add(words(32, 6, 4096, 0, 0, 0, 0), false)
	f.Fuzz(func(t *testing.T, text []byte, wide bool) {
		bits := 32
		if wide {
			bits = 64
		}
		got, ok := parseAuxv(text, bits)
		if !ok && got != nil || ok && got[len(got)-1].Tag != 0 {
			t.Fatalf("got %+v, %v", got, ok)
		}
		if len(got)*bits/4 > len(text) {
			t.Fatalf("%d entries from %d bytes", len(got), len(text))
		}
		for i, e := range got {
			if e.Name == "" || e.Kind == "" || e.Tag == 0 && i != len(got)-1 || bits == 32 && e.Value >= 1<<32 {
				t.Fatalf("got %+v", e)
			}
		}
	})
}
