package proc

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"
)

// ErrNotELF says that the executable of a process is no little-endian ELF file, so
// that the width of the words of its auxiliary vector is unknown.
var ErrNotELF = errors.New("executable is not a little-endian ELF file")

const (
	maxAuxv     = 64 << 10 // bytes; the kernel keeps some 50 words
	maxAuxvText = 4096     // bytes of a string that an entry points to
)

// Auxv is the auxiliary vector.
type Auxv struct {
	WordBits int // 32 or 64; 0 for a kernel thread
	Entries  []AuxvEntry
}

// AuxvEntry is one pair.
type AuxvEntry struct {
	Tag, Value  uint64
	Name        string // AT_…
	Kind        string // number address bitmask unknown
	Description string
	Text        Opt[string] // raw bytes, for AT_EXECFN, AT_PLATFORM and AT_BASE_PLATFORM
	TextError   Opt[string] // why there is no text
}

// ReadAuxv returns the auxiliary vector with the strings it points to.
//
// Shape:  the order of the kernel, up to and with AT_NULL. A kernel thread has no
// entries. It is what execve(2) gave, or what the target set with PR_SET_MM_AUXV.
// Errors: ErrGone; fs.ErrPermission; ErrNotELF; *ParseError.
// Effect: reads the first bytes of the executable through the exe link, and at most
// three strings of the target's memory.
// Source: /proc/PID/auxv, proc_pid_auxv(5), 2.6.0; include/uapi/linux/auxvec.h.
func (p *Process) ReadAuxv() (*Auxv, error) {
	var text []byte
	var cut bool
	has, err := p.readSpace("auxv", false, func(fd int) (int, error) {
		var err error
		text, cut, err = readAll(fd, text[:0:cap(text)], maxAuxv)
		if len(text) >= 8 && string(text[:8]) == "\x00\x00\x00\x00\x00\x00\x00\x00" {
			return 0, err // AT_NULL alone: exec has not filled it yet
		}
		return len(text), err
	})
	if err != nil {
		return nil, err
	}
	if !has {
		return &Auxv{Entries: []AuxvEntry{}}, p.Check()
	}
	bits, err := p.wordBits()
	if err != nil {
		return nil, err
	}
	entries, ok := parseAuxv(text, bits)
	if !ok || cut {
		return nil, p.wrap("auxv", &ParseError{File: "auxv"})
	}
	for i := range entries {
		if e := &entries[i]; e.Name == "AT_EXECFN" || e.Name == "AT_PLATFORM" || e.Name == "AT_BASE_PLATFORM" {
			s, err := p.readString(e.Value)
			if errors.Is(err, ErrGone) {
				return nil, err
			}
			if err != nil {
				e.TextError = Some(err.Error())
				continue
			}
			e.Text = Some(s)
		}
	}
	if err := p.Check(); err != nil {
		return nil, err
	}
	return &Auxv{WordBits: bits, Entries: entries}, nil
}

// wordBits returns 32 or 64 by the ELF class of the executable. The link leads to
// the file that runs, also when that is deleted or was never in a directory.
func (p *Process) wordBits() (int, error) {
	// Whatever the link leads to is not waited for, and only a file is read.
	fd, err := p.openFile("exe", unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY)
	if err != nil {
		return 0, err
	}
	defer closeFD(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return 0, p.wrap("exe", err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return 0, p.wrap("exe", fmt.Errorf("%w: it is no regular file", ErrNotELF))
	}
	var ident [16]byte
	n, err := readRaw(fd, ident[:])
	if err != nil {
		return 0, p.wrap("exe", err)
	}
	bits, err := elfBits(ident[:n])
	if err != nil {
		return 0, p.wrap("exe", err)
	}
	return bits, nil
}

// elfBits reads e_ident, elf(5).
func elfBits(ident []byte) (int, error) {
	if len(ident) < 16 || string(ident[:4]) != "\x7fELF" {
		return 0, fmt.Errorf("%w: it has no ELF header", ErrNotELF)
	}
	switch ident[5] { // EI_DATA
	case 1:
	case 2:
		return 0, fmt.Errorf("%w: it is big-endian", ErrNotELF)
	default:
		return 0, fmt.Errorf("%w: its byte order is unknown", ErrNotELF)
	}
	switch ident[4] { // EI_CLASS
	case 1:
		return 32, nil
	case 2:
		return 64, nil
	}
	return 0, fmt.Errorf("%w: its class is unknown", ErrNotELF)
}

// parseAuxv splits b into pairs of words, up to and with AT_NULL. For a 32-bit
// program the kernel goes through the vector in 64-bit words and may print zeros
// after its end.
func parseAuxv(b []byte, bits int) ([]AuxvEntry, bool) {
	word := bits / 8
	entries := make([]AuxvEntry, 0, 32)
	for ; len(b) >= 2*word; b = b[2*word:] {
		var e AuxvEntry
		if bits == 32 {
			e.Tag, e.Value = uint64(binary.LittleEndian.Uint32(b)), uint64(binary.LittleEndian.Uint32(b[4:]))
		} else {
			e.Tag, e.Value = binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])
		}
		if t, ok := auxvTags[e.Tag]; ok {
			e.Name, e.Kind, e.Description = t.name, t.kind, t.description
		} else {
			e.Name, e.Kind = "AT_UNKNOWN_"+strconv.FormatUint(e.Tag, 10), "unknown"
		}
		entries = append(entries, e)
		if e.Tag == 0 {
			return entries, true
		}
	}
	return nil, false
}

// readString reads a C string of the target.
func (p *Process) readString(address uint64) (string, error) {
	var buf [maxAuxvText]byte
	n, err := p.ReadMemory(address, buf[:])
	if err != nil {
		return "", err
	}
	if end := bytes.IndexByte(buf[:n], 0); end >= 0 {
		return string(buf[:end]), nil
	}
	if n < len(buf) {
		return "", fmt.Errorf("the string at 0x%x runs into memory that cannot be read", address)
	}
	return "", fmt.Errorf("the string at 0x%x is longer than %d bytes", address, maxAuxvText)
}

// auxvTag says what a tag means.
type auxvTag struct{ name, kind, description string }

// auxvTags is every tag that x86 kernels have written up to 6.18:
// include/uapi/linux/auxvec.h, arch/x86/include/uapi/asm/auxvec.h, getauxval(3).
// Tags without a version are older than 2.6.0.
var auxvTags = map[uint64]auxvTag{
	0:  {"AT_NULL", "number", "end of the vector"},
	1:  {"AT_IGNORE", "number", "entry to be ignored"},
	2:  {"AT_EXECFD", "number", "descriptor of the program, given to its interpreter"},
	3:  {"AT_PHDR", "address", "program headers of the executable"},
	4:  {"AT_PHENT", "number", "bytes of one program header"},
	5:  {"AT_PHNUM", "number", "number of program headers"},
	6:  {"AT_PAGESZ", "number", "bytes of a page"},
	7:  {"AT_BASE", "address", "where the dynamic loader is mapped; 0 without one"},
	8:  {"AT_FLAGS", "bitmask", "flags; bit 0: the interpreter was given argv[0] unchanged"},
	9:  {"AT_ENTRY", "address", "entry point of the executable"},
	10: {"AT_NOTELF", "number", "not 0 when the program is no ELF file"},
	11: {"AT_UID", "number", "real user id"},
	12: {"AT_EUID", "number", "effective user id"},
	13: {"AT_GID", "number", "real group id"},
	14: {"AT_EGID", "number", "effective group id"},
	15: {"AT_PLATFORM", "address", "string that names the processor family"},
	16: {"AT_HWCAP", "bitmask", "processor features: CPUID leaf 1, EDX"},
	17: {"AT_CLKTCK", "number", "clock ticks a second, as times(2) counts"},
	23: {"AT_SECURE", "number", "not 0 when the loader must distrust the environment (set-user-ID, capabilities)"},     // 2.6.0
	24: {"AT_BASE_PLATFORM", "address", "string that names the real processor"},                                        // 2.6.27
	25: {"AT_RANDOM", "address", "16 random bytes"},                                                                    // 2.6.29
	26: {"AT_HWCAP2", "bitmask", "further processor features; bit 0: ring 3 MWAIT, bit 1: FSGSBASE"},                   // 3.10
	27: {"AT_RSEQ_FEATURE_SIZE", "number", "bytes of struct rseq that the kernel uses"},                                // 6.3
	28: {"AT_RSEQ_ALIGN", "number", "alignment that struct rseq needs"},                                                // 6.3
	29: {"AT_HWCAP3", "bitmask", "further processor features"},                                                         // 6.9
	30: {"AT_HWCAP4", "bitmask", "further processor features"},                                                         // 6.9
	31: {"AT_EXECFN", "address", "path that was given to execve(2)"},                                                   // 2.6.27
	32: {"AT_SYSINFO", "address", "entry point for system calls in the vDSO, of 32-bit programs"},                      // 2.6.0
	33: {"AT_SYSINFO_EHDR", "address", "ELF header of the vDSO"},                                                       // 2.6.0
	51: {"AT_MINSIGSTKSZ", "number", "bytes that the kernel needs on a signal stack; more with wide vector registers"}, // 5.14
}
