// procfs reads the process list, or the threads or mappings of one process,
// through github.com/prometheus/procfs.
//
//	procfs list LOOPS
//	procfs threads|maps PID LOOPS
package main

import (
	"os"
	"strconv"

	"github.com/prometheus/procfs"

	"procinsh/tests/bench/clock"
)

type row struct {
	stat    procfs.ProcStat
	status  procfs.ProcStatus
	cmdline []string
}

func number(i int) int {
	v, err := strconv.Atoi(os.Args[i])
	clock.Check(err)
	return v
}

func main() {
	fs, err := procfs.NewFS("/proc")
	clock.Check(err)
	loops := number(len(os.Args) - 1)
	switch os.Args[1] {
	case "list":
		clock.Report(loops, func() int {
			ps, err := fs.AllProcs()
			clock.Check(err)
			rows := make([]row, 0, len(ps))
			for _, p := range ps {
				st, err := p.Stat()
				if err != nil {
					continue
				}
				status, err := p.NewStatus()
				if err != nil {
					continue
				}
				cmd, _ := p.CmdLine()
				rows = append(rows, row{st, status, cmd})
			}
			return len(rows)
		})
	case "threads":
		clock.Report(loops, func() int {
			ts, err := fs.AllThreads(number(2))
			clock.Check(err)
			rows := make([]row, 0, len(ts))
			for _, p := range ts {
				st, err := p.Stat()
				if err != nil {
					continue
				}
				status, err := p.NewStatus()
				if err != nil {
					continue
				}
				rows = append(rows, row{stat: st, status: status})
			}
			return len(rows)
		})
	case "maps":
		p, err := fs.Proc(number(2))
		clock.Check(err)
		clock.Report(loops, func() int {
			maps, err := p.ProcMaps()
			clock.Check(err)
			return len(maps)
		})
	}
}
