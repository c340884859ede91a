package sandbox

import (
	"cmp"
	"runtime"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The answers of a program: the call goes on, or an errno comes in its place.
const (
	allow   = unix.SECCOMP_RET_ALLOW
	refuse  = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	unknown = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
)

// Places in struct seccomp_data, include/uapi/linux/seccomp.h.
const (
	dataNumber = 0
	dataArch   = 4
	dataArgs   = 16 // six of 8 bytes, the low half first
)

// instruction is one of classic BPF. In a piece of a program a jump reaches only what
// follows it, and each piece ends by returning.
type instruction = unix.SockFilter

func load(offset uint32) instruction {
	return instruction{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
}

func jump(condition uint16, k uint32, yes, no int) instruction {
	return instruction{Code: unix.BPF_JMP | condition | unix.BPF_K, Jt: uint8(yes), Jf: uint8(no), K: k}
}

func answer(a uint32) instruction { return instruction{Code: unix.BPF_RET | unix.BPF_K, K: a} }

// span is what happens with the calls from a number on, up to the next span.
type span struct {
	from uint32
	code []instruction
}

// program makes the filter: calls of another architecture are refused, what no rule
// names is allowed, numbers from firstUnknown on do not exist, those of x32 are
// refused.
//
// The number is looked up by halves, and a rule loads arguments only once its number
// is found: from 5.11 on the kernel remembers the numbers whose answer depends on
// nothing else, and does not run the program for them.
func program(rules []rule) []instruction {
	spans := []span{{0, []instruction{answer(allow)}}}
	slices.SortFunc(rules, func(a, b rule) int { return cmp.Compare(a.number, b.number) })
	for i, r := range rules {
		spans = append(spans, span{r.number, r.code()})
		if i+1 == len(rules) || rules[i+1].number != r.number+1 {
			spans = append(spans, span{r.number + 1, []instruction{answer(allow)}})
		}
	}
	spans = append(spans, span{firstUnknown, []instruction{answer(unknown)}}, span{x32Bit, []instruction{answer(refuse)}})
	return slices.Concat([]instruction{
		load(dataArch), jump(unix.BPF_JEQ, unix.AUDIT_ARCH_X86_64, 1, 0), answer(refuse),
		load(dataNumber),
	}, search(spans))
}

// search is a tree of comparisons with the number of the call.
func search(spans []span) []instruction {
	if len(spans) == 1 {
		return spans[0].code
	}
	middle := len(spans) / 2
	low, high := search(spans[:middle]), search(spans[middle:])
	skip := []instruction{jump(unix.BPF_JGE, spans[middle].from, len(low), 0)}
	if len(low) > 255 { // farther than a condition jumps
		skip = []instruction{jump(unix.BPF_JGE, spans[middle].from, 0, 1), {Code: unix.BPF_JMP | unix.BPF_JA, K: uint32(len(low))}}
	}
	return slices.Concat(skip, low, high)
}

// code allows the call when all tests of one alternative hold, else it is refused.
func (r rule) code() []instruction {
	code := []instruction{answer(refuse)}
	for _, tests := range slices.Backward(r.allowed) {
		piece := []instruction{answer(allow)}
		for _, t := range slices.Backward(tests) {
			piece = t.code(piece)
		}
		code = append(piece, code...)
	}
	return code
}

// code puts the test in front of what follows when it holds; else it jumps behind that.
func (t test) code(then []instruction) []instruction {
	low := uint32(dataArgs + 8*t.argument)
	compare := []instruction{load(low)}
	if t.mask != 0 {
		compare = append(compare, instruction{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: t.mask})
	}
	for i, v := range t.values {
		left := len(t.values) - i - 1
		otherwise := 0
		if left == 0 {
			otherwise = len(then)
		}
		compare = append(compare, jump(unix.BPF_JEQ, v, left, otherwise))
	}
	if t.wide {
		compare = slices.Concat([]instruction{load(low + 4), jump(unix.BPF_JEQ, 0, 0, len(compare)+len(then))}, compare)
	}
	return append(compare, then...)
}

// install gives the program to every thread of the process. The flag that is tried
// first, SECCOMP_FILTER_FLAG_SPEC_ALLOW (4.17), keeps kernels before 5.16 from slowing
// down the speculation of a process that runs nobody else's code.
func install(code []instruction) error {
	p := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	var e unix.Errno
	for _, flags := range []uintptr{unix.SECCOMP_FILTER_FLAG_TSYNC | unix.SECCOMP_FILTER_FLAG_SPEC_ALLOW, unix.SECCOMP_FILTER_FLAG_TSYNC} {
		var thread uintptr
		thread, _, e = unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&p)))
		runtime.KeepAlive(code)
		if e == 0 && thread != 0 {
			e = unix.EBUSY // that thread has a filter of its own
		}
		if e != unix.EINVAL {
			break
		}
	}
	if e != 0 {
		return e
	}
	return nil
}
