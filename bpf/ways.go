package bpf

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cilium/ebpf/btf"
)

// class is a set of what can be counted: the bits of want in src/io.bpf.c.
type class uint32

const (
	pipes class = 1 << iota
	files
	socketsOut
	socketsIn
)

// way is one manner of seeing the operations of a class end.
type way struct {
	name     wayName
	programs []string
}

type wayName string

// The ways, of which each class takes the first that works.
const (
	byVFS     wayName = "vfs"      // fexit on vfs_read, vfs_write, vfs_readv, vfs_writev
	byLengths wayName = "lengths"  // the tracepoints sock_send_length and sock_recv_length
	bySockets wayName = "sockets"  // fexit on sock_sendmsg and sock_recvmsg
	bySysExit wayName = "sys_exit" // the tracepoint at the end of every system call
	byNothing wayName = ""
)

// The programs of bySysExit: one loads what it reads as it stands, which needs
// bpf_rdonly_cast (6.2), the other copies it.
const (
	sysTyped  = "sys_exit_typed"
	sysCopied = "sys_exit_copied"
)

// hook is what a program was written for: where its arguments stand depends on it.
type hook struct {
	function   string // of the kernel
	tracepoint bool
	parameters string // *NAME points to that struct, * to anything, a number is an integer of so many bits
	result     string
}

// hooks by program.
var hooks = map[string]hook{
	"vfs_read":           {"vfs_read", false, "*file * 64 *", "64"},
	"vfs_write":          {"vfs_write", false, "*file * 64 *", "64"},
	"vfs_readv":          {"vfs_readv", false, "*file *iovec 64 * 32", "64"},
	"vfs_writev":         {"vfs_writev", false, "*file *iovec 64 * 32", "64"},
	"sock_send_length":   {"sock_send_length", true, "*sock 32 32", ""},
	"sock_recv_length":   {"sock_recv_length", true, "*sock 32 32", ""},
	"sock_sendmsg_inner": {"__sock_sendmsg", false, "*socket *msghdr", "32"},
	"sock_sendmsg":       {"sock_sendmsg", false, "*socket *msghdr", "32"},
	"sock_recvmsg":       {"sock_recvmsg", false, "*socket *msghdr 32", "32"},
	sysTyped:             {"sys_exit", true, "*pt_regs 64", ""},
	sysCopied:            {"sys_exit", true, "*pt_regs 64", ""},
}

// checkHook is fits for a program of the table.
func checkHook(kernel *btf.Spec, program string) error {
	h, ok := hooks[program]
	if !ok {
		return fmt.Errorf("no hook for program %s", program)
	}
	return h.fits(kernel)
}

// fits compares the kernel's prototype with the one a program was written for.
//
// Errors: *hookError.
func (h hook) fits(kernel *btf.Spec) error {
	var t btf.Type
	if h.tracepoint {
		def, _, err := tracepointID(kernel, h.function)
		if err != nil {
			return err
		}
		p, ok := def.Type.(*btf.Pointer)
		if !ok {
			return &hookError{h.function, "no prototype"}
		}
		t = p.Target
	} else {
		f, _, err := functionID(kernel, h.function)
		if err != nil {
			return err
		}
		t = f.Type
	}
	proto, ok := t.(*btf.FuncProto)
	if !ok {
		return &hookError{h.function, "no prototype"}
	}
	params := proto.Params
	if h.tracepoint && len(params) > 0 {
		params = params[1:] // of the tracepoint itself
	}
	want := strings.Fields(h.parameters)
	if h.tracepoint && len(params) > len(want) {
		params = params[:len(want)] // later kernels add at the end
	}
	var got []string
	for _, p := range params {
		got = append(got, shape(p.Type))
	}
	fits := len(got) == len(want)
	for i := range want {
		fits = fits && (got[i] == want[i] || want[i] == "*" && strings.HasPrefix(got[i], "*"))
	}
	if !fits {
		return &hookError{h.function, fmt.Sprintf("takes (%s), not (%s)", strings.Join(got, " "), h.parameters)}
	}
	if r := shape(proto.Return); h.result != "" && r != h.result {
		return &hookError{h.function, fmt.Sprintf("returns %s, not %s", r, h.result)}
	}
	return nil
}

// shape describes a type as hook.parameters does.
func shape(t btf.Type) string {
	switch t := btf.UnderlyingType(t).(type) {
	case *btf.Pointer:
		if s, ok := btf.UnderlyingType(t.Target).(*btf.Struct); ok {
			return "*" + s.Name
		}
		return "*"
	case *btf.Int:
		return fmt.Sprint(8 * t.Size)
	case *btf.Enum:
		return fmt.Sprint(8 * t.Size)
	default:
		return t.TypeName()
	}
}

// part is a set of classes that take the same way.
type part struct {
	classes class
	ways    []way
	errs    []error // of the ways that did not work, in order
}

// way returns the one that is tried; name byNothing when none is left.
func (p *part) way() way {
	if len(p.errs) < len(p.ways) {
		return p.ways[len(p.errs)]
	}
	return way{}
}

// err returns what stopped the last way, which asks for the least.
func (p *part) err() error {
	if len(p.errs) == 0 {
		return nil
	}
	return p.errs[len(p.errs)-1]
}

// firstErr returns what stopped the best way.
func (p *part) firstErr() error {
	if len(p.errs) == 0 {
		return nil
	}
	return p.errs[0]
}

// plan is which programs count what. No class is ever counted by two.
type plan struct {
	vfs, out, in part
	sys          string // the program of bySysExit; "" when none is left
	walk         bool   // whether paths are read
	walkErr      error  // why they are not
}

// errOption says that a test asked for a kernel that cannot do it.
var errOption = errors.New("switched off")

func newPlan(o Options) *plan {
	exit := way{name: bySysExit}
	p := &plan{
		vfs: part{pipes | files, []way{{byVFS, []string{"vfs_read", "vfs_write", "vfs_readv", "vfs_writev"}}, exit}, nil},
		out: part{socketsOut, []way{{byLengths, []string{"sock_send_length"}}, {bySockets, []string{"sock_sendmsg_inner"}}, {bySockets, []string{"sock_sendmsg"}}, exit}, nil},
		in:  part{socketsIn, []way{{byLengths, []string{"sock_recv_length"}}, {bySockets, []string{"sock_recvmsg"}}, exit}, nil},
		sys: sysTyped, walk: true,
	}
	if o.WithoutKfuncs {
		p.sys = sysCopied
	}
	if o.WithoutPathWalk {
		p.noWalk(errOption)
	}
	for _, part := range p.parts() {
		for part.without(o) {
			part.errs = append(part.errs, errOption)
		}
	}
	return p
}

// without says whether the way that is next was switched off.
func (p *part) without(o Options) bool {
	switch p.way().name {
	case byVFS, bySockets:
		return o.WithoutFentry
	case byLengths:
		return o.WithoutLengths
	}
	return false
}

func (p *plan) noWalk(err error) { p.walk, p.walkErr = false, err }

func (p *plan) parts() []*part { return []*part{&p.vfs, &p.out, &p.in} }

// bySys returns what sys_exit is to count.
func (p *plan) bySys() class {
	var c class
	for _, part := range p.parts() {
		if part.way().name == bySysExit {
			c |= part.classes
		}
	}
	return c
}

// classes returns what the plan counts.
func (p *plan) classes() class {
	var c class
	for _, part := range p.parts() {
		if part.way().name != byNothing {
			c |= part.classes
		}
	}
	return c
}

// programs returns those that the plan needs.
func (p *plan) programs() []string {
	var all []string
	for _, part := range p.parts() {
		all = append(all, part.way().programs...)
	}
	if p.bySys() != 0 {
		all = append(all, p.sys)
	}
	return all
}

// wayError is why a program of a plan does not work.
type wayError struct {
	program string
	err     error
}

func (e *wayError) Error() string { return e.err.Error() }
func (e *wayError) Unwrap() error { return e.err }

// refused changes the plan after a program of it did not work. It returns false
// when there is nothing left to change.
func (p *plan) refused(program string, err error, o Options) bool {
	if p.walk && refusesReading(err) {
		p.noWalk(err)
		return true
	}
	if program == p.sys {
		if p.sys == sysTyped {
			p.sys = sysCopied
			return true
		}
		for _, part := range p.parts() {
			if part.way().name == bySysExit {
				part.errs = append(part.errs, err)
			}
		}
		return true
	}
	for _, part := range p.parts() {
		for _, name := range part.way().programs {
			if name != program {
				continue
			}
			part.errs = append(part.errs, err)
			for part.without(o) {
				part.errs = append(part.errs, errOption)
			}
			return true
		}
	}
	return false
}

// refusesReading says whether the kernel took offence at bpf_probe_read_kernel,
// as it does under lockdown=confidentiality.
func refusesReading(err error) bool {
	var v *VerifierError
	return errors.As(err, &v) && strings.Contains(v.LastLine(), "bpf_probe_read_kernel")
}
