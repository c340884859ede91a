// gopsutil reads the process list, or the mappings of one process, through
// github.com/shirou/gopsutil/v4, all the fields that our list has.
//
//	gopsutil list LOOPS
//	gopsutil smaps PID LOOPS
package main

import (
	"os"
	"strconv"

	"github.com/shirou/gopsutil/v4/process"

	"procinsh/tests/bench/clock"
)

type row struct {
	pid, ppid, threads int32
	name, cmd          string
	user               string
	uids               []uint32
	state              []string
	cpu                float64
	rss, vms           uint64
	start              int64
}

func number(i int) int {
	v, err := strconv.Atoi(os.Args[i])
	clock.Check(err)
	return v
}

func list() int {
	ps, err := process.Processes()
	clock.Check(err)
	rows := make([]row, 0, len(ps))
	for _, p := range ps {
		var r row
		r.pid = p.Pid
		r.ppid, _ = p.Ppid()
		r.name, _ = p.Name()
		r.cmd, _ = p.Cmdline()
		r.uids, _ = p.Uids()
		r.user, _ = p.Username()
		r.state, _ = p.Status()
		r.threads, _ = p.NumThreads()
		r.start, _ = p.CreateTime()
		if t, err := p.Times(); err == nil {
			r.cpu = t.User + t.System
		}
		if m, err := p.MemoryInfo(); err == nil {
			r.rss, r.vms = m.RSS, m.VMS
		}
		rows = append(rows, r)
	}
	return len(rows)
}

func main() {
	loops := number(len(os.Args) - 1)
	switch os.Args[1] {
	case "list":
		clock.Report(loops, list)
	case "smaps":
		p, err := process.NewProcess(int32(number(2)))
		clock.Check(err)
		clock.Report(loops, func() int {
			maps, err := p.MemoryMaps(false)
			clock.Check(err)
			return len(*maps)
		})
	}
}
