// ours runs one job of package proc again and again and prints the median of its
// CPU time, like the limit programs in C: "@ cpu=MS n=N joined=N".
//
//	ours list|tables|cold-tables|refresh LOOPS EVERY_MS
//	ours fdhost|map-tables LOOPS
//	ours maps|smaps|threads|threads-tables|fds PID LOOPS
//	ours memory|memory-checked PID ADDRESS COUNT LOOPS
package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"procinsh/bpf"
	"procinsh/proc"
	"procinsh/tests/bench/clock"
	"procinsh/watch"
)

// number is an argument, decimal or 0x hex.
func number(i int) uint64 {
	v, err := strconv.ParseUint(os.Args[i], 0, 64)
	clock.Check(err)
	return v
}

func open(fs *proc.FS) *proc.Process {
	pid := int32(number(2))
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	clock.Check(err)
	start, err := strconv.ParseUint(strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))[19], 10, 64)
	clock.Check(err)
	p, err := fs.OpenProcess(proc.ID{PID: pid, StartTicks: start})
	clock.Check(err)
	return p
}

// warn says what a reading left out of the search. What is denied is denied to the
// limit program too, namespaces that came and went it never asks, and how many
// peers one answer lists is no part of the search.
func warn(all []string) {
	for _, w := range all {
		if !strings.Contains(w, "denied") && !strings.Contains(w, "could not be asked") && !strings.Contains(w, "an answer holds at most") {
			fmt.Fprintln(os.Stderr, "ours: warning:", w)
		}
	}
}

// toldMappings are the tables as a scanner takes them, counted and timed.
type toldMappings struct {
	watch.MappingReader
	n   int
	cpu time.Duration
	err error
}

func (m *toldMappings) ReadMappings(each func(*proc.KernelMapping)) bool {
	from := clock.Now()
	m.n = 0
	m.err = m.Read(func(list []bpf.Mapping) bool {
		m.n += len(list)
		for i := range list {
			each((*proc.KernelMapping)(&list[i]))
		}
		return true
	})
	m.cpu = clock.Now() - from
	return m.err == nil
}

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "ours: see the head of its source")
		os.Exit(2)
	}
	fs, err := proc.Open("/proc")
	clock.Check(err)
	loops := int(number(len(os.Args) - 1))
	switch os.Args[1] {
	case "list", "tables", "cold-tables", "refresh":
		s := fs.NewScanner()
		var tables watch.TableReader
		switch os.Args[1] {
		case "refresh":
			s.Keep(true)
			for range 2 { // what is seen again is kept
				_, err := s.Scan(proc.Want{})
				clock.Check(err)
			}
		case "tables", "cold-tables":
			tables, err = watch.OpenTables(fs)
			clock.Check(err)
			defer tables.Close()
			s.ReadFrom(tables)
		}
		clock.ReportEvery(int(number(2)), time.Duration(number(3))*time.Millisecond, func() (int, int) {
			if os.Args[1] == "cold-tables" {
				s = fs.NewScanner() // knows nothing
				s.ReadFrom(tables)
			}
			rows, err := s.Scan(proc.Want{})
			clock.Check(errors.Join(err, s.TablesError()))
			return len(rows), 0
		})
	case "map-tables":
		// What is measured is the reading of the tables with all that is made of it, where the
		// summaries of a scan before, from the texts, turn out to hold.
		tables, err := watch.OpenMappingTables(fs)
		clock.Check(err)
		defer tables.Close()
		told := &toldMappings{MappingReader: tables}
		clock.ReportParts(loops, func() (time.Duration, int) {
			s := fs.NewScanner()
			_, err := s.Scan(proc.Want{Maps: true})
			clock.Check(err)
			s.ReadMappingsFrom(told)
			_, err = s.Scan(proc.Want{Maps: true})
			clock.Check(errors.Join(err, told.err))
			return told.cpu, told.n
		})
	case "maps", "smaps":
		p := open(fs)
		read := p.ReadMaps
		if os.Args[1] == "smaps" {
			read = p.ReadSmaps
		}
		var maps []proc.Mapping
		clock.ReportEvery(loops, 0, func() (int, int) {
			maps, err = read(maps[:0])
			clock.Check(err)
			return len(maps), 0
		})
	case "threads", "threads-tables":
		p := open(fs)
		if os.Args[1] == "threads-tables" {
			tables, err := watch.OpenThreadTables(fs)
			clock.Check(err)
			defer tables.Close()
			p.ReadThreadsFrom(tables)
			var first proc.Sample
			clock.Check(p.ReadSample(&first)) // where they wait is read once
		}
		var s proc.Sample
		clock.ReportEvery(loops, 0, func() (int, int) {
			clock.Check(p.ReadSample(&s))
			return len(s.Threads), 0
		})
	case "fds":
		p := open(fs)
		s := fs.NewDescriptorScanner()
		clock.ReportEvery(loops, 0, func() (int, int) {
			d, err := s.Read(p)
			clock.Check(err)
			warn(d.Warnings)
			ends := 0
			for i := range d.Entries {
				ends += len(d.Entries[i].Peers) + len(d.Entries[i].Holders)
			}
			return len(d.Entries), ends
		})
	case "fdhost", "fdtables":
		s := fs.NewDescriptorScanner()
		if os.Args[1] == "fdtables" {
			tables, err := watch.OpenDescriptorTables(fs)
			clock.Check(err)
			defer tables.Close()
			s.ReadFrom(tables)
		}
		clock.ReportEvery(loops, 0, func() (int, int) {
			h, err := s.ScanHost(proc.HostLimits{Descriptors: 1_000_000, Time: time.Minute})
			clock.Check(errors.Join(err, s.TablesError()))
			warn(h.Warnings)
			return len(h.Rows), h.Joined
		})
	case "connections", "connection-tables":
		s := fs.NewDescriptorScanner()
		if os.Args[1] == "connection-tables" {
			tables, err := watch.OpenDescriptorTables(fs)
			clock.Check(err)
			defer tables.Close()
			s.ReadFrom(tables)
		}
		clock.ReportEvery(loops, 0, func() (int, int) {
			c, err := s.ScanConnections(proc.HostLimits{Descriptors: 1_000_000, Time: time.Minute})
			clock.Check(errors.Join(err, s.TablesError()))
			warn(c.Warnings)
			peers := 0
			for i := range c.Objects {
				if c.Objects[i].Peer >= 0 {
					peers++
				}
			}
			return c.Descriptors, peers
		})
	case "memory", "memory-checked":
		p := open(fs)
		address, count := number(3), number(4)
		buf := make([]byte, 65536)
		clock.ReportEvery(loops, 0, func() (int, int) {
			total := 0
			for i := range count {
				n, err := p.ReadMemory(address+i*65536, buf)
				clock.Check(err)
				if os.Args[1] == "memory-checked" {
					clock.Check(p.Check())
				}
				total += n
			}
			return total, 0
		})
	default:
		fmt.Fprintln(os.Stderr, "ours: unknown job", os.Args[1])
		os.Exit(2)
	}
}
