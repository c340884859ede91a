package proc

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mapsOf parses text as the kernel would hand it out in pieces of size bytes.
func mapsOf(file, text string, size int, dst []Mapping) ([]Mapping, error) {
	m := mapReader{file: file, dst: dst, base: len(dst)}
	_, err := m.read(pieces(text, size), make([]byte, maxMapLine))
	return m.dst, err
}

func pieces(text string, size int) func([]byte) (int, error) {
	return func(b []byte) (int, error) {
		n := copy(b, text[:min(size, len(text))])
		text = text[n:]
		return n, nil
	}
}

func TestParseMapping(t *testing.T) {
	file := func(path string) Mapping {
		return Mapping{Start: 0x7f0a5c000000, End: 0x7f0a5c021000, Permissions: [4]byte([]byte("r-xp")),
			FileOffset: 0x2000, Major: 0xfe, Minor: 1, Inode: 131, Path: path, Deleted: Some(false)}
	}
	const before = "7f0a5c000000-7f0a5c021000 r-xp 00002000 fe:01 131                        "
	unsettled := func(path string) Mapping {
		m := file(path)
		m.Deleted = Opt[bool]{}
		return m
	}
	for _, c := range []struct {
		name, line string
		want       Mapping
	}{
		{"file", before + "/usr/lib/libc.so.6", file("/usr/lib/libc.so.6")},
		{"blanks inside and at the end", before + "/a  b\tc ", file("/a  b\tc ")},
		{"bytes that are no UTF-8", before + "/x\xff\xfe", file("/x\xff\xfe")},
		{"a blank in front belongs to the path", before + " /x", func() Mapping { m := file(" /x"); m.Deleted = Opt[bool]{}; return m }()},
		{"backslash alone says nothing", before + `/a\b`, file(`/a\b`)},
		{"escaped newline, or not", before + `/a\012b`, unsettled(`/a\012b`)},
		{"deleted, or not", before + "/a (deleted)", unsettled("/a (deleted)")},
		{"deleted in the middle", before + "/a (deleted)/b", file("/a (deleted)/b")},
		{"low addresses have eight digits", "00010000-00011000 r--p 00000000 fe:00 77                                 /low",
			Mapping{Start: 0x10000, End: 0x11000, Permissions: [4]byte([]byte("r--p")), Major: 0xfe, Inode: 77, Path: "/low", Deleted: Some(false)}},
		{"anonymous", "7ffd1000-7ffd2000 rw-p 00000000 00:00 0 ",
			Mapping{Start: 0x7ffd1000, End: 0x7ffd2000, Permissions: [4]byte([]byte("rw-p"))}},
		{"anonymous without the last blank", "7ffd1000-7ffd2000 rw-p 00000000 00:00 0",
			Mapping{Start: 0x7ffd1000, End: 0x7ffd2000, Permissions: [4]byte([]byte("rw-p"))}},
		{"named by the kernel", "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]",
			Mapping{Start: 0xffffffffff600000, End: 0xffffffffff601000, Permissions: [4]byte([]byte("--xp")), Path: "[vsyscall]"}},
		{"named by the program", "7f0000000000-7f0000001000 rw-p 00000000 00:00 0                          [anon:dalvik main space]",
			Mapping{Start: 0x7f0000000000, End: 0x7f0000001000, Permissions: [4]byte([]byte("rw-p")), Path: "[anon:dalvik main space]"}},
		{"System V shared memory", "7f0000000000-7f0000001000 rw-s 00000000 00:01 98304                      /SYSV0000162e (deleted)",
			Mapping{Start: 0x7f0000000000, End: 0x7f0000001000, Permissions: [4]byte([]byte("rw-s")), Minor: 1, Inode: 98304, Path: "/SYSV0000162e (deleted)"}},
		{"no file system", "7f0000000000-7f0000001000 rw-s 00000000 00:0f 1063                       anon_inode:[perf_event]",
			Mapping{Start: 0x7f0000000000, End: 0x7f0000001000, Permissions: [4]byte([]byte("rw-s")), Minor: 15, Inode: 1063, Path: "anon_inode:[perf_event]"}},
		{"fields past the column", "7f0a5c000000-7f0a5c021000 r-xp ffffffffff000 12345:fffff 18446744073709551615  /x",
			Mapping{Start: 0x7f0a5c000000, End: 0x7f0a5c021000, Permissions: [4]byte([]byte("r-xp")), FileOffset: 0xffffffffff000,
				Major: 0x12345, Minor: 0xfffff, Inode: 1<<64 - 1, Path: "/x", Deleted: Some(false)}},
		{"other padding", "7f0a5c000000-7f0a5c021000 r-xp 00002000 fe:01 131 /x", file("/x")},
	} {
		for _, size := range []int{1, 7, 4096} {
			got, err := mapsOf("maps", c.line+"\n", size, nil)
			if err != nil || len(got) != 1 || got[0] != c.want {
				t.Errorf("%s, pieces of %d:\n got %+v, %v\nwant %+v", c.name, size, got, err, c.want)
			}
		}
	}
}

func TestParseMappingMalformed(t *testing.T) {
	const good = "00010000-00011000 r--p 00000000 fe:00 77 /low\n"
	for _, line := range []string{
		"", "x", "00010000", "00010000-", "00010000-00011000", "00010000-00011000 r--", "00010000-00011000 r--p", "00010000-00011000 r--p ",
		"00011000-00011000 r--p 00000000 fe:00 77 /empty", "00012000-00011000 r--p 00000000 fe:00 77 /reversed",
		"00010000-00011000 r--p 00000000 fe-00 77", "00010000-00011000 r--p 00000000 fe:00 ", "00010000-00011000 r--p 00000000 fe:00 x",
		"00010000-00011000 r--p 00000000 123456789:00 7", "00010000-00011000 r--p 00000000 fe:00 18446744073709551616",
		"000100000000000000-00011000 r--p 00000000 fe:00 77", "00010000-00011000 r--pp00000000 fe:00 77", "00010000-0001100g r--p 00000000 fe:00 77",
	} {
		got, err := mapsOf("maps", good+line+"\n"+good, 4096, nil)
		var form *ParseError
		if !errors.As(err, &form) || *form != (ParseError{File: "maps", Line: 2}) {
			t.Errorf("%q: error %v, want line 2", line, err)
		}
		if len(got) != 1 || got[0].Path != "/low" {
			t.Errorf("%q: got %+v, want what was read before", line, got)
		}
	}
}

// A mapping that changes between two pieces of the text shows twice, or over
// another: what was read last holds, and addresses stay in order.
func TestMapsTorn(t *testing.T) {
	line := func(start, end uint64, path string) string {
		return fmt.Sprintf("%08x-%08x rw-p 00000000 fe:00 7 %s\n", start, end, path)
	}
	for _, c := range []struct {
		name, text string
		want       string
	}{
		{"twice", line(0x1000, 0x2000, "/a") + line(0x1000, 0x2000, "/a") + line(0x3000, 0x4000, "/b"), "1000-2000/a 3000-4000/b"},
		{"grown upwards", line(0x1000, 0x2000, "/a") + line(0x1000, 0x3000, "/a"), "1000-3000/a"},
		{"grown downwards over two", line(0x1000, 0x2000, "/a") + line(0x2000, 0x3000, "/b") + line(0x3000, 0x4000, "/c") + line(0x2000, 0x5000, "/d"), "1000-2000/a 2000-5000/d"},
		{"begins inside", line(0x1000, 0x3000, "/a") + line(0x2000, 0x4000, "/b"), "1000-2000/a 2000-4000/b"},
		{"split", line(0x1000, 0x4000, "/a") + line(0x2000, 0x3000, "/b"), "1000-2000/a 2000-3000/b"},
		{"unsettled and dropped", line(0x1000, 0x2000, "/a (deleted)") + line(0x1000, 0x2000, "/b"), "1000-2000/b"},
	} {
		m := mapReader{file: "maps"}
		_, err := m.read(pieces(c.text, 64), make([]byte, maxMapLine))
		var got []string
		for _, v := range m.dst {
			got = append(got, fmt.Sprintf("%x-%x%s", v.Start, v.End, v.Path))
		}
		if err != nil || strings.Join(got, " ") != c.want {
			t.Errorf("%s: got %v, %v, want %s", c.name, got, err, c.want)
		}
		if len(m.ambiguous) != 0 {
			t.Errorf("%s: mappings %v are still to be settled", c.name, m.ambiguous)
		}
	}
	// What was there before the reading is not touched.
	kept := Mapping{Start: 0x9000, End: 0xa000}
	got, err := mapsOf("maps", line(0x1000, 0x2000, "/a"), 64, []Mapping{kept})
	if err != nil || len(got) != 2 || got[0] != kept {
		t.Errorf("got %+v, %v, want the first to stay", got, err)
	}
}

func TestMapsCaps(t *testing.T) {
	line := func(i int, path string) string {
		return fmt.Sprintf("%08x-%08x r--p 00000000 fe:00 7 %s\n", i<<12, (i+1)<<12, path)
	}
	var many strings.Builder
	for i := range maxMaps + 1 {
		many.WriteString(line(i, "/a"))
	}
	got, err := mapsOf("maps", many.String(), 4096, nil)
	if len(got) != maxMaps || !errors.Is(err, ErrTruncated) || !strings.Contains(err.Error(), strconv.Itoa(maxMaps)) {
		t.Errorf("many mappings: got %d, %v", len(got), err)
	}

	long := line(1, "/"+strings.Repeat("x", 2*maxMapLine)) + line(2, "/after")
	for _, size := range []int{4096, 1 << 20} {
		got, err = mapsOf("maps", long, size, nil)
		if len(got) != 2 || !errors.Is(err, ErrTruncated) || got[1].Path != "/after" || len(got[0].Path) >= maxMapLine {
			t.Errorf("long line in pieces of %d: got %d mappings, %v", size, len(got), err)
		}
	}

	var paths strings.Builder
	for i := range maxMapPathBytes/60_000 + 1 {
		paths.WriteString(line(i, "/"+strconv.Itoa(i)+strings.Repeat("y", 60_000)))
	}
	got, err = mapsOf("maps", paths.String(), 4096, nil)
	bytes := 0
	for _, m := range got {
		bytes += len(m.Path)
	}
	if bytes > maxMapPathBytes || bytes < maxMapPathBytes-70_000 || !errors.Is(err, ErrTruncated) {
		t.Errorf("long paths: got %d bytes, %v", bytes, err)
	}
}

// Neighbours share their path, and a second reading into the same slice takes the
// strings of the first.
func TestMapsReuse(t *testing.T) {
	var text strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&text, "%08x-%08x r--p 00000000 fe:00 7 /lib/%d.so\n", i<<12, (i+1)<<12, i/4)
	}
	buf := make([]byte, maxMapLine)
	m := mapReader{file: "maps"}
	read := func() {
		m.reset()
		if _, err := m.read(pieces(text.String(), 4096), buf); err != nil {
			t.Fatal(err)
		}
	}
	read()
	if a, b := m.dst[0].Path, m.dst[3].Path; unsafe.StringData(a) != unsafe.StringData(b) {
		t.Error("neighbours of one file have a string each")
	}
	if n := testing.AllocsPerRun(5, read); n > 5 { // the closures of the test
		t.Errorf("reading again allocates %v times", n)
	}
}

func init() { targets["map-names"] = mapNames }

// mapNames maps files whose names a reader of maps gets wrong, then deletes some.
func mapNames(args []string) {
	dir := args[0]
	for i, f := range mapNameCases {
		path := dir + "/" + f.name
		fd := must2(unix.Open(path, unix.O_RDWR|unix.O_CREAT, 0o644))
		must(unix.Ftruncate(fd, 16<<12))
		at, _, e := unix.Syscall6(unix.SYS_MMAP, mapNameAddress(i), uintptr(i+1)<<12, unix.PROT_READ|unix.PROT_WRITE,
			unix.MAP_SHARED|unix.MAP_FIXED_NOREPLACE, uintptr(fd), 0)
		if e != 0 || at != mapNameAddress(i) {
			must(fmt.Errorf("mmap: %v", e))
		}
		*(*byte)(unsafe.Add(unsafe.Pointer(nil), at)) = 'x'
		unix.Close(fd)
		switch f.then {
		case "unlink":
			must(unix.Unlink(path))
		case "link elsewhere":
			must(unix.Link(path, path+".other"))
			must(unix.Unlink(path))
		case "replace":
			must(os.WriteFile(path+".new", nil, 0o644))
			must(unix.Rename(path+".new", path))
		case "name it as the kernel would":
			must(unix.Link(path, path+" (deleted)"))
			must(unix.Unlink(path))
		}
	}
	if len(args) > 1 {
		must(unix.Chroot(args[1]))
	}
}

func mapNameAddress(i int) uintptr { return 0x200000000000 + uintptr(i)*0x100000 }

var mapNameCases = []struct {
	name, then string
	deleted    bool
}{
	{"with some  spaces.so", "", false},
	{"new\nline.so", "", false},
	{`literal\012escape.so`, "", false},
	{"live file (deleted)", "", false},
	{"gone.so", "unlink", true},
	{"gone twice (deleted)", "unlink", true},
	{"tab\tand trailing space ", "", false},
	{"not-utf8-\xff\xfe.so", "", false},
	{" blank in front", "", false},
	{"hard link", "link elsewhere", true},
	{"replaced", "replace", true},
	{"new\nline gone", "unlink", true},
}

func checkMapNames(t *testing.T, p *Process, dir string) {
	t.Helper()
	for name, read := range map[string]func([]Mapping) ([]Mapping, error){"maps": p.ReadMaps, "smaps": p.ReadSmaps} {
		maps, err := read(nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for i, c := range mapNameCases {
			at := slices.IndexFunc(maps, func(m Mapping) bool { return m.Start == uint64(mapNameAddress(i)) })
			if at < 0 {
				t.Errorf("%s: %q is missing", name, c.name)
				continue
			}
			m := maps[at]
			want := dir + "/" + c.name
			if c.deleted {
				want += " (deleted)"
			}
			if m.Path != want || m.Deleted != Some(c.deleted) {
				t.Errorf("%s: got %q, deleted %v, want %q, %v", name, m.Path, m.Deleted, want, c.deleted)
			}
			if m.End != m.Start+uint64(i+1)<<12 || string(m.Permissions[:]) != "rw-s" {
				t.Errorf("%s: %q: end %x, %s", name, c.name, m.End, m.Permissions)
			}
			if name == "smaps" && (m.RSS != Some[uint64](4096) || m.Dirty != Some[uint64](4096)) {
				t.Errorf("smaps: %q: RSS %v, dirty %v, want one page", c.name, m.RSS, m.Dirty)
			}
			if name == "maps" && (m.RSS.Known() || m.PSS.Known() || m.Swap.Known() || m.Dirty.Known()) {
				t.Errorf("maps: %q has figures", c.name)
			}
		}
	}
}

func TestMapNames(t *testing.T) {
	needRoot(t)
	dir := filepath.Join(t.TempDir(), "d d")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	p := openLive(t, startTarget(t, nil, "map-names", dir).pid())
	checkMapNames(t, p, dir)
}

// The paths that the kernel prints start at the reader's root, not at the target's.
func TestMapNamesChroot(t *testing.T) {
	needRoot(t)
	top := t.TempDir()
	dir := filepath.Join(top, "d d")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	p := openLive(t, startTarget(t, nil, "map-names", dir, top).pid())
	checkMapNames(t, p, dir)
}

// Beyond the cap names keep their text, and the reading says so.
func TestMapLinksCap(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d d")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	p := openLive(t, startTarget(t, nil, "map-names", dir).pid())
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", p.id.PID))
	if err != nil {
		t.Fatal(err)
	}
	m := mapReader{file: "maps"}
	if _, err := m.read(pieces(string(text), len(text)), make([]byte, maxMapLine)); err != nil {
		t.Fatal(err)
	}
	unsettled := len(m.ambiguous)
	if err := p.resolveMapLinks(&m, 2); err != nil || !strings.Contains(m.cut, "more than 2 names") {
		t.Errorf("cut %q, %v", m.cut, err)
	}
	unknown := 0
	for _, at := range m.ambiguous {
		if !m.dst[at].Deleted.Known() {
			unknown++
		}
	}
	if unsettled < 5 || unknown != unsettled-2 {
		t.Errorf("%d of %d names unknown, want all but 2", unknown, unsettled)
	}
}

// Without CAP_CHECKPOINT_RESTORE the links of map_files can be read but not
// followed; what the text and the file system say is then enough for all names
// here on a file system whose device is the same in stat and maps.
func TestMapNamesWithoutFollowing(t *testing.T) {
	needRoot(t)
	dir := filepath.Join(t.TempDir(), "d d")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	p := openLive(t, startTarget(t, nil, "map-names", dir).pid())
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		t.Fatal(err)
	}
	maps, err := p.ReadMaps(nil)
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(maps, func(m Mapping) bool { return m.Start == uint64(mapNameAddress(0)) })
	if at < 0 || unix.Mkdev(maps[at].Major, maps[at].Minor) != st.Dev {
		t.Skip("stat and maps give different devices on this file system")
	}
	withoutCaps(t, []int{unix.CAP_SYS_ADMIN, unix.CAP_CHECKPOINT_RESTORE}, func() {
		if _, err := statFollow(p.dir, fmt.Sprintf("map_files/%x-%x", maps[at].Start, maps[at].End)); !errors.Is(err, unix.EPERM) {
			t.Errorf("following a link: %v, want it denied", err)
		}
		maps, err := p.ReadMaps(nil)
		if err != nil {
			t.Error(err)
		}
		for i, c := range mapNameCases {
			at := slices.IndexFunc(maps, func(m Mapping) bool { return m.Start == uint64(mapNameAddress(i)) })
			if at < 0 {
				t.Errorf("%q is missing", c.name)
				continue
			}
			got, known := maps[at].Deleted.Get()
			if known && got != c.deleted {
				t.Errorf("%q: deleted %v, want %v", c.name, got, c.deleted)
			}
			if !known && !c.deleted {
				t.Errorf("%q: unknown whether deleted", c.name)
			}
		}
	})
}

// withoutCaps runs f on a thread without these capabilities.
func withoutCaps(t *testing.T, drop []int, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var data [2]unix.CapUserData
		if err := unix.Capget(&head, &data[0]); err != nil {
			t.Error(err)
			return
		}
		for _, c := range drop {
			data[c/32].Effective &^= 1 << (c % 32)
		}
		if err := unix.Capset(&head, &data[0]); err != nil {
			t.Error(err)
			return
		}
		f()
	}()
	<-done
}

func FuzzMaps(f *testing.F) {
	f.Add([]byte("00010000-00011000 r--p 00000000 fe:00 77                                 /low\n"), 7, false)
	f.Add([]byte("7f0a5c000000-7f0a5c021000 r-xp 00002000 fe:01 131                        /a\\012 (deleted)\n"), 64, true)
	f.Add([]byte("1000-3000 rw-p 0 0:0 0 \nRss:     4 kB\nSwap:    0 kB\n2000-4000 rw-p 0 0:0 0 [heap]\nVmFlags: rd\n"), 3, false)
	f.Fuzz(func(t *testing.T, text []byte, size int, kinds bool) {
		read := func(size int) ([]Mapping, error) {
			m := mapReader{file: "smaps", kindsOnly: kinds}
			_, err := m.read(pieces(string(text), size), make([]byte, 512))
			for _, at := range m.ambiguous {
				if at >= len(m.dst) {
					t.Fatalf("mapping %d of %d is to be settled", at, len(m.dst))
				}
			}
			return m.dst, err
		}
		got, err := read(max(size, 1)%600 + 1)
		var form *ParseError
		if err != nil && !errors.Is(err, ErrTruncated) && !errors.As(err, &form) {
			t.Fatalf("error of an unknown kind: %v", err)
		}
		paths := 0
		for i, m := range got {
			paths += len(m.Path)
			if m.Start >= m.End || i > 0 && got[i-1].End > m.Start {
				t.Fatalf("out of order: %+v", got)
			}
		}
		if len(got) > strings.Count(string(text), "\n")+1 || paths > len(text) {
			t.Fatalf("%d mappings with %d bytes of paths from %d bytes", len(got), paths, len(text))
		}
		again, err2 := read(len(text) + 1)
		if !slices.Equal(got, again) || (err == nil) != (err2 == nil) {
			t.Fatalf("depends on the pieces: %+v, %v and %+v, %v", got, err, again, err2)
		}
		sum := SummarizeMaps(got)
		checkSummary(t, got, sum)
	})
}
