package proc

import (
	"errors"
	"strings"
	"testing"
)

const smapsText = `7f0000200000-7f0000800000 rw-p 00000000 00:00 0 
Size:               6144 kB
KernelPageSize:        4 kB
MMUPageSize:           4 kB
Rss:                 612 kB
Pss:                 401 kB
Pss_Dirty:           400 kB
Shared_Clean:          8 kB
Shared_Dirty:         12 kB
Private_Clean:        92 kB
Private_Dirty:       500 kB
Referenced:          612 kB
Anonymous:           612 kB
KSM:                   0 kB
LazyFree:              0 kB
AnonHugePages:         0 kB
ShmemPmdMapped:        0 kB
FilePmdMapped:         0 kB
Shared_Hugetlb:        0 kB
Private_Hugetlb:       0 kB
Swap:                 16 kB
SwapPss:              16 kB
Locked:                0 kB
THPeligible:           1
ProtectionKey:         0
VmFlags: rd wr mr mw me ac sd 
7f0000800000-7f0001000000 rw-p 00000000 00:10 4711                       /anon_hugepage (deleted)
Size:               8192 kB
KernelPageSize:     2048 kB
MMUPageSize:        2048 kB
Rss:                   0 kB
Pss:                   0 kB
Shared_Dirty:          0 kB
Private_Dirty:         0 kB
Private_Hugetlb:    8192 kB
Swap:                  0 kB
VmFlags: rd wr mr mw me de ht sd 
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]
Size:                  4 kB
`

func TestParseSmaps(t *testing.T) {
	for _, size := range []int{1, 5, 4096} {
		got, err := mapsOf("smaps", smapsText, size, nil)
		if err != nil || len(got) != 3 {
			t.Fatalf("got %d mappings, %v", len(got), err)
		}
		for i, want := range []struct{ rss, pss, swap, dirty Opt[uint64] }{
			{Some[uint64](612 * 1024), Some[uint64](401 * 1024), Some[uint64](16 * 1024), Some[uint64](512 * 1024)},
			{Some[uint64](0), Some[uint64](0), Some[uint64](0), Some[uint64](0)}, // hugetlb pages are in none of them
			{}, // no line, no number
		} {
			m := got[i]
			if m.RSS != want.rss || m.PSS != want.pss || m.Swap != want.swap || m.Dirty != want.dirty {
				t.Errorf("mapping %d: got RSS %v PSS %v swap %v dirty %v, want %v", i, m.RSS, m.PSS, m.Swap, m.Dirty, want)
			}
		}
	}
}

func TestParseSmapsMalformed(t *testing.T) {
	const head = "00010000-00011000 r--p 00000000 fe:00 77 /low\n"
	for _, text := range []string{"Rss: 4 kB\n", head + "Rss:\n", head + "Rss: x kB\n", head + "Pss: 4\n", head + "Swap: 4 MB\n",
		head + "Private_Dirty: 18446744073709551615 kB\n", head + "Shared_Dirty: 9007199254740992 kB\n"} {
		_, err := mapsOf("smaps", text, 4096, nil)
		var form *ParseError
		if !errors.As(err, &form) || form.File != "smaps" || form.Line != strings.Count(text, "\n") {
			t.Errorf("%q: got %v", text, err)
		}
	}
}
