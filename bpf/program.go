package bpf

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"unsafe"

	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"
)

// program is a loaded program and, once attached, its link.
type program struct {
	descriptor
	name string
	hook string // the section of the object; "" when it only runs when asked to
	link descriptor
}

// attachPoint is what a section name says about its programs.
type attachPoint struct {
	progType   uint32
	attachType uint32
	btfID      btf.TypeID
	link       bool // whether there is anything to attach to
}

// attachPointOf understands tp_btf/NAME, fentry/NAME, fexit/NAME, iter/NAME, and
// raw_tp for programs that only run when asked to.
func attachPointOf(kernel *btf.Spec, section string) (attachPoint, error) {
	kind, name, _ := strings.Cut(section, "/")
	switch kind {
	case "tp_btf":
		_, id, err := tracepointID(kernel, name)
		return attachPoint{unix.BPF_PROG_TYPE_TRACING, unix.BPF_TRACE_RAW_TP, id, true}, err
	case "fentry":
		_, id, err := functionID(kernel, name)
		return attachPoint{unix.BPF_PROG_TYPE_TRACING, unix.BPF_TRACE_FENTRY, id, true}, err
	case "fexit":
		_, id, err := functionID(kernel, name)
		return attachPoint{unix.BPF_PROG_TYPE_TRACING, unix.BPF_TRACE_FEXIT, id, true}, err
	case "iter":
		_, id, err := functionID(kernel, "bpf_iter_"+name)
		return attachPoint{unix.BPF_PROG_TYPE_TRACING, unix.BPF_TRACE_ITER, id, true}, err
	case "raw_tp":
		return attachPoint{progType: unix.BPF_PROG_TYPE_RAW_TRACEPOINT}, nil
	}
	return attachPoint{}, fmt.Errorf("section %s is not understood", section)
}

// verifierLog is the size of the log of a second attempt. Smaller ones make old
// kernels answer ENOSPC in place of what was wrong.
const verifierLog = 1 << 20

// load loads one program of the object. Its tables must have been created.
//
// Errors: *hookError without a place to attach to; *VerifierError.
func (u *unit) load(name string) (*program, error) {
	f, ok := u.obj.functions[name]
	if !ok || !f.isProgram() {
		return nil, fmt.Errorf("no program %s", name)
	}
	point, err := attachPointOf(u.kernel, f.section)
	if err != nil {
		return nil, err
	}
	code, err := u.assemble(f)
	if err != nil {
		return nil, fmt.Errorf("load program %s: %w", name, err)
	}
	attr := attrProgLoad{
		progType: point.progType, expectedAttachType: point.attachType, attachBTFID: uint32(point.btfID),
		insnCount: uint32(len(code.insns) / 8), insns: unsafe.Pointer(unsafe.SliceData(code.insns)),
		name: objectName(name),
	}
	license := append([]byte(u.obj.license), 0)
	attr.license = unsafe.Pointer(&license[0])
	types := loadBTF(code.types)
	defer types.close()
	if types.fd >= 0 {
		attr.progBTFFD = uint32(types.fd)
		attr.funcInfoRecSize, attr.funcInfo = btf.FuncInfoSize, unsafe.Pointer(unsafe.SliceData(code.funcInfo))
		attr.funcInfoCount = uint32(len(code.funcInfo)) / btf.FuncInfoSize
		attr.lineInfoRecSize, attr.lineInfo = btf.LineInfoSize, unsafe.Pointer(unsafe.SliceData(code.lineInfo))
		attr.lineInfoCount = uint32(len(code.lineInfo)) / btf.LineInfoSize
	}
	fd, err := loadProgram(name, &attr)
	runtime.KeepAlive(code)
	runtime.KeepAlive(license)
	if err != nil {
		return nil, err
	}
	p := &program{descriptor: descriptor{fd}, name: name, link: descriptor{-1}}
	if point.link {
		p.hook = f.section
	}
	u.programs = append(u.programs, p)
	return p, nil
}

// loadProgram loads without a log, which costs the kernel time and memory, and
// again with one for the reason. The first error stands: with a log there can be
// others.
func loadProgram(name string, attr *attrProgLoad) (int, error) {
	var fd int
	first := retryMemlock(func() (err error) {
		fd, err = sysBPF(unix.BPF_PROG_LOAD, attr)
		return err
	})
	if first == nil {
		return fd, nil
	}
	log := make([]byte, verifierLog)
	attr.logLevel, attr.logSize, attr.logBuf = 1, uint32(len(log)), unsafe.Pointer(&log[0])
	fd, err := sysBPF(unix.BPF_PROG_LOAD, attr)
	if err == nil {
		return fd, nil
	}
	return -1, &VerifierError{Prog: name, Log: logText(log), Err: first}
}

// loadBTF gives the kernel the types of a program, for its logs. It can do
// without: a refusal is no error.
func loadBTF(types []byte) descriptor {
	if len(types) == 0 {
		return descriptor{-1}
	}
	attr := attrBTFLoad{btf: unsafe.Pointer(unsafe.SliceData(types)), size: uint32(len(types))}
	fd, err := sysBPF(unix.BPF_BTF_LOAD, &attr)
	if err != nil {
		return descriptor{-1}
	}
	return descriptor{fd}
}

// attach makes the program run at its hook.
//
// BPF_RAW_TRACEPOINT_OPEN without a name takes the hook that the program was
// loaded for, and does so on every kernel with such programs; BPF_LINK_CREATE
// only from 5.19 on.
func (p *program) attach() error {
	attr := attrRawTracepoint{progFD: uint32(p.fd)}
	fd, err := sysBPF(unix.BPF_RAW_TRACEPOINT_OPEN, &attr)
	if err != nil {
		return fmt.Errorf("attach program %s: %w", p.name, err)
	}
	p.link = descriptor{fd}
	return nil
}

// run runs a raw_tp program once on the calling CPU, with args as its context.
func (p *program) run(args ...uint64) (uint32, error) {
	attr := attrTestRun{progFD: uint32(p.fd)}
	if len(args) > 0 {
		attr.ctxIn, attr.ctxSizeIn = unsafe.Pointer(&args[0]), uint32(8*len(args))
	}
	if _, err := sysBPF(unix.BPF_PROG_TEST_RUN, &attr); err != nil {
		return 0, fmt.Errorf("run program %s: %w", p.name, err)
	}
	runtime.KeepAlive(args)
	return attr.retval, nil
}

// recursionMisses returns how often the kernel skipped the program because it
// was already running on that CPU; 0 where the kernel does not count it.
//
// Source: struct bpf_prog_info, include/uapi/linux/bpf.h; recursion_misses since 5.12.
func (p *program) recursionMisses() (uint64, error) {
	var info [256]byte
	attr := attrInfo{fd: uint32(p.fd), infoLen: uint32(len(info)), info: unsafe.Pointer(&info[0])}
	if _, err := sysBPF(unix.BPF_OBJ_GET_INFO_BY_FD, &attr); err != nil {
		return 0, fmt.Errorf("inspect program %s: %w", p.name, err)
	}
	const at = 208
	if attr.infoLen < at+8 {
		return 0, nil
	}
	return binary.LittleEndian.Uint64(info[at:]), nil
}

func (p *program) close() error { return errors.Join(p.link.close(), p.descriptor.close()) }

// machineCode is a relocated program in the kernel's form.
type machineCode struct{ insns, types, funcInfo, lineInfo []byte }

// assemble links a program with the functions it calls and relocates it for the
// running kernel.
func (u *unit) assemble(f *function) (machineCode, error) {
	insns, err := u.link(f)
	if err != nil {
		return machineCode{}, err
	}
	types, err := btf.NewBuilder(nil, nil)
	if err != nil {
		return machineCode{}, err
	}
	var at []int
	var relos []*btf.CORERelocation
	for i := range insns {
		if r := btf.CORERelocationMetadata(&insns[i]); r != nil {
			at, relos = append(at, i), append(relos, r)
		}
	}
	fixups, err := btf.CORERelocate(relos, []*btf.Spec{u.kernel}, binary.LittleEndian, types.Add)
	if err != nil {
		return machineCode{}, err
	}
	for i, fix := range fixups {
		if err := fix.Apply(&insns[at[i]]); err != nil {
			return machineCode{}, fmt.Errorf("instruction %d: %w", at[i], err)
		}
	}
	var code machineCode
	if code.funcInfo, code.lineInfo, err = btf.MarshalExtInfos(insns, types); err != nil {
		return machineCode{}, err
	}
	if len(code.funcInfo) > 0 {
		if code.types, err = types.Marshal(nil, btf.KernelMarshalOptions()); err != nil {
			return machineCode{}, err
		}
	}
	var out bytes.Buffer
	if err := insns.Marshal(&out, binary.LittleEndian); err != nil {
		return machineCode{}, err
	}
	code.insns = out.Bytes()
	return code, nil
}
