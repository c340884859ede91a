package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"

	"procinsh/tests/bench/judge"
)

func command(name string, args ...string) []string {
	return append([]string{filepath.Join(judge.Bin, name)}, args...)
}

type part struct {
	name string
	run  func(context.Context) error
}

// parts are the tables, by the name they are asked for with.
var parts = []part{
	{"list", small}, {"list", large}, {"descriptors", descriptors}, {"maps", mappings}, {"threads", threads}, {"memory", memory}, {"encoding", encoding}, {"viewer", viewers},
}

// scan prints the tables of everything that is read from the text files of /proc.
func scan(ctx context.Context, wanted []string) error {
	for _, name := range wanted {
		if !slices.ContainsFunc(parts, func(p part) bool { return p.name == name }) {
			return fmt.Errorf("no part is called %s", name)
		}
	}
	for _, p := range parts {
		if len(wanted) > 0 && !slices.Contains(wanted, p.name) {
			continue
		}
		if err := p.run(ctx); err != nil {
			return err
		}
	}
	for _, p := range []struct{ tool, pack string }{{"ps", "procps"}, {"lsof", "lsof"}} {
		if absent[p.tool] {
			fmt.Printf("\n%s is not installed (Debian package %s): its rows are missing\n", p.tool, p.pack)
		}
	}
	return nil
}

func small(ctx context.Context) error { return list(ctx, size(1000, 100)) }
func large(ctx context.Context) error { return list(ctx, size(5000, 300)) }

// list scans once a second, as a server with a viewer does, so that the texts that
// are re-read in slices count in both.
func list(ctx context.Context, n int) error {
	f, err := start(ctx, "procs", strconv.Itoa(n))
	if err != nil {
		return err
	}
	defer f.stop()
	loops, every := strconv.Itoa(size(3, 1)), strconv.Itoa(size(1000, 50))
	if err := compare(ctx, fmt.Sprintf("process list, %s processes, one scan of the kernel's tables after others", grouped(n)),
		program{name: "procinsh", argv: command("ours", "tables", loops, every)},
		program{name: "C: stat, status, statm", argv: command("c-list", loops, every), most: 0.13, same: true, host: true}); err != nil {
		return err
	}
	first := 0.02 // of gopsutil
	if n < 5000 {
		first = 0.04 // the threads of the kernel, which are read as text, are more of it
	}
	if err := compare(ctx, fmt.Sprintf("process list, %s processes, the first scan of the kernel's tables", grouped(n)),
		program{name: "procinsh", argv: command("ours", "cold-tables", loops, every)},
		program{name: "C: stat, status, statm", argv: command("c-list", loops, every), most: 0.35, same: true, host: true},
		program{name: "gopsutil 4.26", argv: command("gopsutil", "list", "1"), most: first, same: true, host: true},
		program{name: "ps, whole program", argv: []string{"ps", "-eo", "pid,ppid,user,stat,%cpu,rss,nlwp,args"}, whole: true}); err != nil {
		return err
	}
	if err := compare(ctx, fmt.Sprintf("process list, %s processes, one scan with descriptors kept from the one before", grouped(n)),
		program{name: "procinsh", argv: command("ours", "refresh", loops, every)},
		program{name: "C: stat, status, statm", argv: command("c-list", loops, every), most: 0.6, same: true, host: true}); err != nil {
		return err
	}
	return compare(ctx, fmt.Sprintf("process list, %s processes, one scan", grouped(n)),
		program{name: "procinsh", argv: command("ours", "list", loops, every)},
		program{name: "C: stat, status, statm", argv: command("c-list", loops, every), most: 1.25, same: true, host: true},
		program{name: "prometheus/procfs 0.23", argv: command("procfs", "list", strconv.Itoa(size(2, 1))), most: 0.7, same: true, host: true},
		program{name: "gopsutil 4.26", argv: command("gopsutil", "list", "1"), most: 0.2, same: true, host: true},
		program{name: "ps, whole program", argv: []string{"ps", "-eo", "pid,ppid,user,stat,%cpu,rss,nlwp,args"}, whole: true})
}

func descriptors(ctx context.Context) error {
	// 20,000 is the usual hard limit of a process; with what the host holds already
	// the whole stays below the 100,000 that one reading looks at.
	per, processes := size(19_000, 1_000), size(5, 2)
	f, err := start(ctx, "fds", strconv.Itoa(per), strconv.Itoa(processes))
	if err != nil {
		return err
	}
	defer f.stop()
	few, err := start(ctx, "fds", "24") // some of each kind
	if err != nil {
		return err
	}
	defer few.stop()
	loops := strconv.Itoa(size(3, 1))
	host := grouped(per * processes)
	if err := compare(ctx, fmt.Sprintf("descriptors with peers, all %s of the host, from the kernel's tables", host),
		program{name: "procinsh", argv: command("ours", "fdtables", loops)},
		program{name: "C: readlink, sock_diag, joined", argv: command("c-fdhost", loops), most: 0.2, same: true, host: true},
		program{name: "lsof -n -P, whole program", argv: []string{"lsof", "-n", "-P"}, whole: true, most: 0.04},
		program{name: "ss -xtupan, whole program", argv: []string{"ss", "-xtupan"}, whole: true, most: 0.1}); err != nil {
		return err
	}
	if err := compare(ctx, fmt.Sprintf("who is connected with whom, %s descriptors, from the kernel's tables", host),
		program{name: "procinsh", argv: command("ours", "connection-tables", loops)},
		program{name: "procinsh, from the texts", argv: command("ours", "connections", loops), most: 0.5, same: true, host: true}); err != nil {
		return err
	}
	if err := compare(ctx, fmt.Sprintf("descriptors with peers, all %s of the host", host),
		program{name: "procinsh", argv: command("ours", "fdhost", loops)},
		program{name: "C: readlink, sock_diag, joined", argv: command("c-fdhost", loops), most: 1.25, same: true, host: true},
		program{name: "lsof -n -P, whole program", argv: []string{"lsof", "-n", "-P"}, whole: true}); err != nil {
		return err
	}
	pid := few.children[0]
	if err := compare(ctx, fmt.Sprintf("descriptors with peers, of a process with 24 on a host with %s", host),
		program{name: "procinsh", argv: command("ours", "fds", pid, loops)},
		program{name: "C: the same", argv: command("c-fds", pid, loops), most: 1.25, same: true}); err != nil {
		return err
	}
	pid = f.children[0]
	return compare(ctx, fmt.Sprintf("descriptors with peers, of a process with %s on a host with %s", grouped(per), host),
		program{name: "procinsh", argv: command("ours", "fds", pid, loops)},
		program{name: "C: the same, peers not listed", argv: command("c-fds", pid, loops), same: true},
		program{name: "lsof -n -P -p PID, whole program", argv: []string{"lsof", "-n", "-P", "-p", pid}, whole: true})
}

func mappings(ctx context.Context) error {
	loops := strconv.Itoa(size(5, 1))
	if err := hostMappings(ctx, size(1000, 100), loops); err != nil {
		return err
	}
	n := size(60_000, 2_000)
	f, err := start(ctx, "maps", strconv.Itoa(n))
	if err != nil {
		return err
	}
	defer f.stop()
	if err := compare(ctx, fmt.Sprintf("maps, %s mappings", grouped(n)),
		program{name: "procinsh", argv: command("ours", "maps", f.pid, loops)},
		program{name: "C: maps, parsed", argv: command("c-maps", "maps", f.pid, loops), most: 1.25, same: true},
		program{name: "prometheus/procfs 0.23", argv: command("procfs", "maps", f.pid, loops), same: true}); err != nil {
		return err
	}
	return compare(ctx, fmt.Sprintf("smaps, %s mappings", grouped(n)),
		program{name: "procinsh", argv: command("ours", "smaps", f.pid, loops)},
		program{name: "C: smaps, parsed", argv: command("c-maps", "smaps", f.pid, loops), most: 1.25, same: true},
		program{name: "gopsutil 4.26", argv: command("gopsutil", "smaps", f.pid, "1"), same: true})
}

// hostMappings is for the map summaries of all processes, most of which are as they were.
func hostMappings(ctx context.Context, n int, loops string) error {
	f, err := start(ctx, "procs", strconv.Itoa(n))
	if err != nil {
		return err
	}
	defer f.stop()
	return compare(ctx, fmt.Sprintf("all maps of %s processes, from the kernel's tables", grouped(n)),
		program{name: "procinsh", argv: command("ours", "map-tables", loops)},
		program{name: "C: maps, parsed", argv: command("c-maps", "maps", "all", loops), most: 0.5, same: true, host: true})
}

func threads(ctx context.Context) error {
	n := size(2000, 200)
	f, err := start(ctx, "threads", strconv.Itoa(n))
	if err != nil {
		return err
	}
	defer f.stop()
	loops := strconv.Itoa(size(5, 1))
	if err := compare(ctx, fmt.Sprintf("threads from the kernel's tables, %s of one process", grouped(n)),
		program{name: "procinsh", argv: command("ours", "threads-tables", f.pid, strconv.Itoa(size(50, 5)))},
		program{name: "C: stat, status", argv: command("c-threads", f.pid, loops, "stat"), most: 0.05, same: true}); err != nil {
		return err
	}
	return compare(ctx, fmt.Sprintf("threads, %s of one process", grouped(n)),
		program{name: "procinsh", argv: command("ours", "threads", f.pid, loops)},
		program{name: "C: stat, status, wchan, syscall", argv: command("c-threads", f.pid, loops), most: 1.25, same: true},
		program{name: "prometheus/procfs 0.23: stat, status", argv: command("procfs", "threads", f.pid, strconv.Itoa(size(3, 1))), same: true},
		program{name: "ps -L, whole program", argv: []string{"ps", "-L", "-o", "tid,stat,pri,ni,psr,wchan,comm", "-p", f.pid}, whole: true})
}

func memory(ctx context.Context) error {
	f, err := start(ctx, "mem", strconv.Itoa(size(64, 16)))
	if err != nil {
		return err
	}
	defer f.stop()
	count, loops := strconv.Itoa(size(1000, 200)), strconv.Itoa(size(5, 1))
	if err := compare(ctx, fmt.Sprintf("memory, %s reads of 64 KiB", grouped(size(1000, 200))),
		program{name: "procinsh", argv: command("ours", "memory", f.pid, f.address, count, loops)},
		program{name: "C: process_vm_readv", argv: command("c-memory", f.pid, f.address, count, loops), most: 1.3, same: true}); err != nil {
		return err
	}
	return compare(ctx, fmt.Sprintf("memory, %s reads of 64 KiB, the identity checked after each", grouped(size(1000, 200))),
		program{name: "procinsh", argv: command("ours", "memory-checked", f.pid, f.address, count, loops)},
		program{name: "C: process_vm_readv, unchecked", argv: command("c-memory", f.pid, f.address, count, loops), same: true})
}
