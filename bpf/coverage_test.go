package bpf

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestCoverage(t *testing.T) {
	refused := &VerifierError{"vfs_read", "", unix.EPERM}
	missing := &hookError{"vfs_readv", "not in this kernel"}
	none := &hookError{"sock_send_length", "not in this kernel"}
	const (
		system  = "counted at system calls"
		narrow  = "32-bit and x32"
		first   = "recvmmsg: only the first message"
		address = "sendmmsg with one address"
		ring    = "io_uring on sockets"
	)
	for _, c := range []struct {
		name       string
		set        func(*ioSensor)
		ipc, files []string // beginnings of lines that must be there
		not        []string // and of those that must be in neither
	}{
		{"functions", func(*ioSensor) {}, []string{"splice, sendfile"}, []string{"splice, sendfile", "paths start at"},
			[]string{system, "kernel refuses", narrow, first, address, ring, "paths unavailable", "some paths"}},
		{"refused", func(s *ioSensor) { s.plan.vfs.errs = []error{refused} },
			[]string{"kernel refuses fentry; " + system, narrow}, []string{"kernel refuses fentry; " + system, narrow}, []string{first}},
		{"missing", func(s *ioSensor) { s.plan.vfs.errs = []error{missing} },
			[]string{"no function hooks (no hook for vfs_readv: not in this kernel); " + system}, []string{"no function hooks"}, nil},
		{"silent", func(s *ioSensor) { s.plan.vfs.errs = []error{errSilent} },
			[]string{"function hooks do not report; " + system}, []string{"function hooks do not report; " + system}, nil},
		{"before 6.3", func(s *ioSensor) {
			s.tellsCalls = true
			s.plan.out.errs, s.plan.in.errs = []error{none}, []error{none}
		}, []string{first, address}, nil, []string{ring, system}},
		{"before 5.15", func(s *ioSensor) { s.plan.out.errs, s.plan.in.errs = []error{none}, []error{none} },
			[]string{first, address, ring}, nil, []string{system}},
		{"sockets at system calls", func(s *ioSensor) { s.plan.in.errs = []error{none, refused} },
			[]string{"sockets are " + system, narrow}, nil, []string{first, "fentry switched off", system}},
		{"no pipes", func(s *ioSensor) { s.plan.vfs.errs = []error{refused, refused} },
			[]string{"pipes are not counted: "}, nil, []string{"paths start", system}},
		{"no sockets", func(s *ioSensor) { s.plan.out.errs = []error{none, none, none, errSilent} },
			[]string{"bytes sent on sockets are not counted: hook attached"}, nil, []string{"bytes received", "pipes are"}},
		{"lockdown", func(s *ioSensor) { s.plan.noWalk(refused) }, nil, []string{"paths unavailable: kernel lockdown"}, nil},
		{"full ring", func(s *ioSensor) { s.pathsMissing = true }, nil, []string{"some paths were not reported"}, nil},
	} {
		s := &ioSensor{plan: newPlan(Options{}), unit: &unit{}}
		c.set(s)
		ipc, files := s.ipcCoverage(), s.filesCoverage()
		has := func(lines []string, begin string) bool {
			for _, l := range lines {
				if strings.HasPrefix(l, begin) {
					return true
				}
			}
			return false
		}
		for _, begin := range c.ipc {
			if !has(ipc, begin) {
				t.Errorf("%s: ipc coverage %q lacks %q", c.name, ipc, begin)
			}
		}
		for _, begin := range c.files {
			if !has(files, begin) {
				t.Errorf("%s: files coverage %q lacks %q", c.name, files, begin)
			}
		}
		for _, begin := range c.not {
			if has(ipc, begin) || has(files, begin) {
				t.Errorf("%s: coverage %q and %q should not say %q", c.name, ipc, files, begin)
			}
		}
	}
	if closed := (&ioSensor{plan: newPlan(Options{})}); closed.ipcCoverage() != nil || closed.filesCoverage() != nil {
		t.Error("a sensor that is not loaded names what it does not count")
	}
}
