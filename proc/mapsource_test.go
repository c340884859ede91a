package proc

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// fakeMappings are tables that say what a test wants.
type fakeMappings struct {
	list  []KernelMapping
	cut   bool // the reading does not come to its end
	reads int
}

func (f *fakeMappings) ReadMappings(each func(*KernelMapping)) bool {
	f.reads++
	for i := range f.list {
		each(&f.list[i])
	}
	return !f.cut
}

// spacesTree has processes 10 to 13, of which each maps one page at that many pages.
func spacesTree(t *testing.T) (*Scanner, *time.Duration, string) {
	t.Helper()
	dir := family(t, [3]int{10, 0, 100}, [3]int{11, 0, 100}, [3]int{12, 0, 100}, [3]int{13, 0, 100})
	for pid := 10; pid < 14; pid++ {
		writeFile(t, filepath.Join(dir, fmt.Sprint(pid), "maps"), fmt.Sprintf("%x000-%x000 r--p 00001000 08:01 5                          /lib/x\n", pid, pid+1))
	}
	s, at := scannerOf(t, openTree(t, dir))
	s.spaces.gateRead = true // as if there were no [vsyscall]
	return s, at, dir
}

// told is what the tables say of the process.
func told(pid int32, pages uint64) KernelMapping {
	return KernelMapping{
		PID: pid, Begun: 100 * nsPerTick, Start: uint64(pid) << 12, End: (uint64(pid) + pages) << 12,
		Permissions: [4]byte{'r', '-', '-', 'p'}, FileOffset: 4096, Major: 8, Minor: 1, Inode: 5, Name: "/",
	}
}

// sizes are what rows say that the processes have mapped, in pages; -1 without a summary.
func sizes(rows []Row) (list []int) {
	for _, r := range rows {
		if r.Maps == nil {
			list = append(list, -1)
			continue
		}
		sum := uint64(0)
		for _, n := range r.Maps.Totals {
			sum += n
		}
		list = append(list, int(sum>>12))
	}
	return list
}

func TestSummariesFromTables(t *testing.T) {
	want := Want{Maps: true}
	s, at, _ := spacesTree(t)
	texts := slices.Clone(scan(t, s, want))
	epochs := []uint64{texts[0].MapsEpoch, texts[1].MapsEpoch, texts[2].MapsEpoch, texts[3].MapsEpoch}
	f := &fakeMappings{}
	s.ReadMappingsFrom(f)

	again := told(12, 4)
	again.Begun += 50 * nsPerTick
	open := told(13, 9)
	open.Unsettled = true
	f.list = []KernelMapping{told(10, 1), told(11, 3), again, open}
	rows := scan(t, s, want)
	if got := fmt.Sprint(sizes(rows), f.reads); got != "[1 3 1 1] 1" {
		t.Errorf("the same, another, of another process and one left open: %s", got)
	}
	for i, r := range rows {
		if same := i != 1; (r.Maps == texts[i].Maps) != same || (r.MapsEpoch == epochs[i]) != same || r.MapsErr != nil {
			t.Errorf("process %d: epoch %d after %d, %+v, %v", r.ID.PID, r.MapsEpoch, epochs[i], r.Maps, r.MapsErr)
		}
	}

	// They are read every 5 s, in which a summary stays what it is.
	f.list = []KernelMapping{told(10, 2), told(11, 2), told(12, 2), told(13, 2)}
	*at += mapsAge - time.Second
	if got := fmt.Sprint(sizes(scan(t, s, want)), f.reads); got != "[1 3 1 1] 1" {
		t.Errorf("before their time: %s", got)
	}
	*at += time.Second
	if got := fmt.Sprint(sizes(scan(t, s, want)), f.reads); got != "[2 2 2 2] 2" {
		t.Errorf("after 5 s: %s", got)
	}

	// What came of a reading that did not end counts, but for the process it ended in; that
	// and the rest are read as text in their time, and the tables asked again at once.
	f.list, f.cut = []KernelMapping{told(10, 3), told(11, 3), told(12, 3)}, true
	*at += mapsAge
	if got := fmt.Sprint(sizes(scan(t, s, want)), f.reads); got != "[3 3 2 2] 3" {
		t.Errorf("half of it: %s", got)
	}
	f.list = nil
	*at += tablesSlack + time.Second
	if got := fmt.Sprint(sizes(scan(t, s, want)), f.reads); got != "[3 3 1 1] 4" {
		t.Errorf("nothing of it, later: %s", got)
	}
	*at += mapsAge
	if got := fmt.Sprint(sizes(scan(t, s, want)), f.reads); got != "[1 1 1 1] 5" {
		t.Errorf("nothing of it, much later: %s", got)
	}

	// Mappings themselves have names: they come from the texts, and summaries with them.
	f.list, f.cut = []KernelMapping{told(10, 5)}, false
	*at += 2 * mapsAge
	rows = scan(t, s, Want{Maps: true, Mappings: true})
	if got := fmt.Sprint(sizes(rows), f.reads); got != "[1 1 1 1] 5" || rows[0].Mappings == nil || rows[0].Mappings.Maps[0].Path != "/lib/x" {
		t.Errorf("with mappings: %s, %+v", got, rows[0].Mappings)
	}
	if got := fmt.Sprint(sizes(scan(t, s, Want{})), f.reads); got != "[-1 -1 -1 -1] 5" {
		t.Errorf("when nobody wants them: %s", got)
	}
	s.ReadMappingsFrom(nil)
	*at += 2 * mapsAge
	if got := fmt.Sprint(sizes(scan(t, s, want)), f.reads); got != "[1 1 1 1] 5" {
		t.Errorf("without tables: %s", got)
	}
}

// A process changes while it is walked: what comes last holds, as in a reading of text.
func TestTablesOfAChangingSpace(t *testing.T) {
	s, _, dir := spacesTree(t)
	part := func(start, end uint64) KernelMapping {
		m := told(11, 1)
		m.Start, m.End = start, end
		return m
	}
	gate := Mapping{Start: 0xffffffffff600000, End: 0xffffffffff601000, Permissions: [4]byte{'-', '-', 'x', 'p'}, Path: "[vsyscall]"}
	s.spaces.gate = &gate
	list := []KernelMapping{part(0x1000, 0x5000), part(0x3000, 0x6000), part(0x8000, 0x9000), part(0x8000, 0xa000)}
	list[0].Vsyscall = true
	s.ReadMappingsFrom(&fakeMappings{list: list})
	rows := scan(t, s, Want{Maps: true})
	var lines strings.Builder
	for _, x := range [][2]uint64{{0x1000, 0x3000}, {0x3000, 0x6000}, {0x8000, 0xa000}} {
		fmt.Fprintf(&lines, "%x-%x r--p 00001000 08:01 5                          /lib/x\n", x[0], x[1])
	}
	fmt.Fprintf(&lines, "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]\n")
	writeFile(t, filepath.Join(dir, "11", "maps"), lines.String())
	text, _ := scannerOf(t, s.fs)
	want := scan(t, text, Want{Maps: true})
	if got, want := fmt.Sprint(*rows[1].Maps), fmt.Sprint(*want[1].Maps); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// A process with more mappings than a reading takes is left to the texts, which say so.
func TestTablesLeaveTheLargestToTexts(t *testing.T) {
	s, _, _ := spacesTree(t)
	f := &fakeMappings{list: make([]KernelMapping, 0, maxMaps+2)}
	for i := range maxMaps + 1 {
		m := told(10, 1)
		m.Start, m.End = uint64(0x1000*(i+1)), uint64(0x1000*(i+2))
		f.list = append(f.list, m)
	}
	f.list = append(f.list, told(11, 7))
	s.ReadMappingsFrom(f)
	if got := fmt.Sprint(sizes(scan(t, s, Want{Maps: true}))); got != "[1 7 1 1]" {
		t.Errorf("%s", got)
	}
	if cap(s.spaces.list.dst) > maxKeptMaps {
		t.Errorf("memory for %d mappings is kept", cap(s.spaces.list.dst))
	}
}

func BenchmarkTableSpaces(b *testing.B) {
	s := new(Scanner)
	s.spaces.gateRead = true
	s.spaces.now.id.PID = 1
	for b.Loop() {
		s.spaces.list.dst, s.spaces.walked = s.spaces.list.dst[:0], s.spaces.walked[:0]
		for i := range 25 {
			m := told(10, 1)
			m.Start, m.End = uint64(0x1000*(i+1)), uint64(0x1000*(i+2))
			s.spaces.add(&m)
		}
		s.finishSpace()
		s.known = []known{{id: s.spaces.now.id, space: knownSpace{summary: s.spaces.walked[0].summary, made: s.spaces.walked[0].sums}}}
	}
}
