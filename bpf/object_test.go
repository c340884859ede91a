package bpf

import (
	"bytes"
	delf "debug/elf"
	"encoding/binary"
	"os"
	"strings"
	"testing"

	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"
)

func parsed(t testing.TB, raw []byte) *object {
	t.Helper()
	o, err := parseObject(raw)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestParseObject(t *testing.T) {
	o := parsed(t, cpuObject)
	if o.license != "GPL" {
		t.Errorf("license %q", o.license)
	}
	for name, want := range map[string]tableSpec{
		"cpu_homes":   {unix.BPF_MAP_TYPE_ARRAY, 4, uint32(homeSize(cpuSlots)), 1, unix.BPF_F_MMAPABLE},
		"cpu_spill_0": {unix.BPF_MAP_TYPE_HASH, 24, 16, 8192, 0},
		"cpu_spill_1": {unix.BPF_MAP_TYPE_HASH, 24, 16, 8192, 0},
	} {
		if got := o.tables[name]; got != want {
			t.Errorf("table %s is %+v, want %+v", name, got, want)
		}
	}
	for variable, section := range map[string]string{"last": ".rodata", "ns_inum": ".rodata", "epoch": ".data", "lost": ".bss", "missed": ".bss"} {
		if _, ok := o.data[section].variables[variable]; !ok {
			t.Errorf("no variable %s in %s", variable, section)
		}
	}
	if !o.data[".rodata"].readOnly || o.data[".data"].readOnly || o.data[".bss"].readOnly {
		t.Error("constants and variables are mixed up")
	}
	if got := o.data[".data"].contents[0]; got != 1 {
		t.Errorf("the epoch begins at %d, want 1", got)
	}
	f := o.functions["cpu_switch"]
	if f == nil || f.section != "tp_btf/sched_switch" || !f.isProgram() {
		t.Fatalf("program cpu_switch: %+v", f)
	}
	all, err := o.closure(f)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 2 || all[0] != f {
		t.Errorf("cpu_switch and what it calls are %d functions", len(all))
	}
	kinds := map[referenceKind]int{}
	for _, f := range all {
		for _, ref := range f.refs {
			kinds[ref.kind]++
		}
	}
	if kinds[toTable] == 0 || kinds[toData] == 0 || kinds[toFunction] == 0 || kinds[toKernel] != 0 {
		t.Errorf("references of cpu_switch by kind: %v", kinds)
	}
	if refs := o.functions["cpu_drain_cast"].refs; !hasKernelReference(refs, "bpf_rdonly_cast") {
		t.Errorf("cpu_drain_cast calls no bpf_rdonly_cast: %+v", refs)
	}
}

func hasKernelReference(refs []reference, name string) bool {
	for _, r := range refs {
		if r.kind == toKernel && r.name == name {
			return true
		}
	}
	return false
}

// sectionAt is where a section of the object lies in the file, and its header.
func sectionAt(t testing.TB, raw []byte, name string) (data, header int) {
	t.Helper()
	f, err := delf.NewFile(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	table := int(binary.LittleEndian.Uint64(raw[40:]))
	for i, s := range f.Sections {
		if s.Name == name {
			return int(s.Offset), table + i*64
		}
	}
	t.Fatalf("no section %s", name)
	return 0, 0
}

// symbolAt is where a symbol lies in the file.
func symbolAt(t testing.TB, raw []byte, name string) int {
	t.Helper()
	f, err := delf.NewFile(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	symbols, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	at, _ := sectionAt(t, raw, ".symtab")
	for i, s := range symbols {
		if s.Name == name {
			return at + (i+1)*24
		}
	}
	t.Fatalf("no symbol %s", name)
	return 0
}

func TestParseObjectRefuses(t *testing.T) {
	put32 := binary.LittleEndian.PutUint32
	put64 := binary.LittleEndian.PutUint64
	const rel = ".reltp_btf/sched_switch"
	for _, c := range []struct {
		name   string
		change func(b []byte) []byte
		want   string // in the error
	}{
		{"empty", func(b []byte) []byte { return nil }, "read object"},
		{"cut", func(b []byte) []byte { return b[:len(b)/2] }, "read"},
		{"no ELF", func(b []byte) []byte { b[0] = 'X'; return b }, "bad magic"},
		{"other machine", func(b []byte) []byte { b[18] = byte(delf.EM_X86_64); return b }, "no BPF object"},
		{"executable", func(b []byte) []byte { b[16] = byte(delf.ET_EXEC); return b }, "no BPF object"},
		{"too large", func(b []byte) []byte { return make([]byte, objectLimit+1) }, "too large"},
		{"enormous .bss", func(b []byte) []byte {
			_, h := sectionAt(t, b, ".bss")
			put64(b[h+32:], 1<<40)
			return b
		}, "exceeds"},
		{"variable outside", func(b []byte) []byte {
			put64(b[symbolAt(t, b, "epoch")+8:], 1<<33)
			return b
		}, "epoch"},
		{"function outside", func(b []byte) []byte {
			put64(b[symbolAt(t, b, "cpu_switch")+16:], 1<<33)
			return b
		}, "cpu_switch"},
		{"function of half an instruction", func(b []byte) []byte {
			put64(b[symbolAt(t, b, "cpu_switch")+16:], 12)
			return b
		}, "whole instructions"},
		{"function cut in a wide instruction", func(b []byte) []byte {
			size := uint64(0)
			f := parsed(t, b).functions["cpu_switch"]
			for iter := f.insns.Iterate(); iter.Next(); {
				if iter.Ins.OpCode.IsDWordLoad() {
					size = iter.Offset.Bytes() + asm.InstructionSize
					break
				}
			}
			put64(b[symbolAt(t, b, "cpu_switch")+16:], size)
			return b
		}, "second half"},
		{"relocation of no instruction", func(b []byte) []byte {
			at, _ := sectionAt(t, b, rel)
			put64(b[at:], 1<<20)
			return b
		}, "no instruction"},
		{"relocation in an instruction", func(b []byte) []byte {
			at, _ := sectionAt(t, b, rel)
			put64(b[at:], 4)
			return b
		}, "no instruction"},
		{"relocation of another kind", func(b []byte) []byte {
			at, _ := sectionAt(t, b, rel)
			put32(b[at+8:], 77)
			return b
		}, "type 77"},
		{"symbol that is not there", func(b []byte) []byte {
			at, _ := sectionAt(t, b, rel)
			put32(b[at+12:], 1<<30)
			return b
		}, "not there"},
		{"null symbol", func(b []byte) []byte {
			at, _ := sectionAt(t, b, rel)
			put32(b[at+12:], 0)
			return b
		}, "not there"},
		{"address read as call", func(b []byte) []byte {
			at, _ := sectionAt(t, b, rel)
			put32(b[at+8:], relocCall)
			return b
		}, "no call"},
		{"relocated twice", func(b []byte) []byte {
			at, _ := sectionAt(t, b, rel)
			copy(b[at+16:at+32], b[at:at+16])
			return b
		}, "twice"},
		{"compressed code", func(b []byte) []byte {
			_, h := sectionAt(t, b, "tp_btf/sched_switch")
			put64(b[h+8:], uint64(delf.SHF_EXECINSTR|delf.SHF_ALLOC|delf.SHF_COMPRESSED))
			return b
		}, "compressed"},
		{"half a relocation", func(b []byte) []byte {
			_, h := sectionAt(t, b, rel)
			put64(b[h+32:], 24)
			return b
		}, "no whole relocations"},
		{"relocates a section that is not there", func(b []byte) []byte {
			_, h := sectionAt(t, b, rel)
			put32(b[h+44:], 1<<30)
			return b
		}, "not there"},
		{"table without type", func(b []byte) []byte {
			copy(b[bytes.Index(b, []byte("\x00cpu_homes\x00"))+1:], "cpu_homez")
			return b
		}, "cpu_home"},
		{"license gone", func(b []byte) []byte {
			copy(b[bytes.LastIndex(b, []byte("\x00license\x00"))+1:], "nothing")
			return b
		}, "license"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o, err := parseObject(c.change(bytes.Clone(cpuObject)))
			if err == nil {
				t.Fatal("taken")
			}
			if o != nil {
				t.Error("an object beside the error")
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %q, want %q in it", err, c.want)
			}
		})
	}
}

// Whatever the bytes: no panic, no object beside an error, nothing in the object
// that leads out of it.
func FuzzObject(f *testing.F) {
	f.Add([]byte(nil))
	f.Add(cpuObject)
	f.Add(cpuObject[:len(cpuObject)/2])
	for _, at := range []int{16, 40, 60, 62, 0x40, 0x200, len(cpuObject) - 100, len(cpuObject) - 200} {
		b := bytes.Clone(cpuObject)
		b[at] ^= 0xff
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		o, err := parseObject(raw)
		if err != nil {
			if o != nil {
				t.Error("an object beside an error")
			}
			return
		}
		code := 0
		for _, fn := range o.functions {
			code += int(fn.insns.Size())
			for _, ref := range fn.refs {
				if ref.at < 0 || ref.at >= len(fn.insns) {
					t.Errorf("%s has a reference at %d of %d", fn.name, ref.at, len(fn.insns))
				}
				switch ref.kind {
				case toData:
					if int(ref.offset) >= len(o.data[ref.name].contents) {
						t.Errorf("%s refers outside %s", fn.name, ref.name)
					}
				case toFunction:
					if o.functions[ref.name] == nil {
						t.Errorf("%s calls %s, which is not there", fn.name, ref.name)
					}
				case toTable:
					if _, ok := o.tables[ref.name]; !ok {
						t.Errorf("%s uses %s, which is not there", fn.name, ref.name)
					}
				}
			}
		}
		if code > len(raw) {
			t.Errorf("%d bytes of code from %d", code, len(raw))
		}
		for name, d := range o.data {
			for v, s := range d.variables {
				if s.offset < 0 || s.size < 0 || s.offset+s.size > len(d.contents) {
					t.Errorf("variable %s lies outside %s", v, name)
				}
			}
		}
	})
}

func TestUnitSettings(t *testing.T) {
	u := newUnit(parsed(t, cpuObject), nil)
	if err := u.set("last", 512); err != nil {
		t.Fatal(err)
	}
	_, s, err := u.variable("last")
	if err != nil {
		t.Fatal(err)
	}
	if got := binary.LittleEndian.Uint32(u.contents[".rodata"][s.offset:]); got != 512 {
		t.Errorf("last is %d, want 512", got)
	}
	if again := newUnit(u.obj, nil); bytes.Equal(again.contents[".rodata"], u.contents[".rodata"]) {
		t.Error("one unit changed the object of all")
	}
	for what, err := range map[string]error{
		"variable": u.set("nothing", 1),
		"table":    u.resize("nothing", 1),
		"program":  u.create("nothing"),
	} {
		if err == nil || !strings.Contains(err.Error(), "nothing") {
			t.Errorf("unknown %s: %v", what, err)
		}
	}
	if _, err := u.global("lost"); err == nil {
		t.Error("a variable before create")
	}
	if _, err := u.load("pid_in"); err == nil {
		t.Error("a function was loaded as a program")
	}
	u.release()
	if _, err := u.load("cpu_switch"); err == nil {
		t.Error("a program was loaded from what is forgotten")
	}
	if _, _, err := u.variable("lost"); err != nil {
		t.Error(err)
	}
	if err := u.close(); err != nil {
		t.Error(err)
	}
}

func TestParseCPUs(t *testing.T) {
	for _, c := range []struct {
		list string
		want int
	}{
		{"0\n", 1}, {"0-1\n", 2}, {"0-3,8\n", 9}, {"0,2,4-7", 8}, {"0-8191", 8192},
		{"", 0}, {"\n", 0}, {"0-8192", 0}, {"3-1", 0}, {"-1", 0}, {"0-", 0}, {"x", 0}, {"0,,1", 0}, {"99999999999", 0},
	} {
		got, err := parseCPUs(c.list)
		if got != c.want || (err == nil) != (c.want > 0) {
			t.Errorf("parseCPUs(%q) = %d, %v, want %d", c.list, got, err, c.want)
		}
	}
	n, err := possibleCPUs()
	if err != nil || n < 1 {
		t.Errorf("possibleCPUs() = %d, %v", n, err)
	}
	if _, err := os.Stat("/sys/devices/system/cpu/cpu0"); err != nil {
		t.Error(err)
	}
}

func TestObjectName(t *testing.T) {
	for in, want := range map[string]string{
		"":                       "",
		"cpu_homes":              "cpu_homes",
		"rodata.str1.1":          "rodata.str1.1",
		"a/b-c d":                "a_b_c_d",
		"exactly15letter":        "exactly15letter",
		"longer than it may be.": "longer_than_it_",
	} {
		got := objectName(in)
		if logText(got[:]) != want || got[len(got)-1] != 0 {
			t.Errorf("objectName(%q) = %q, want %q", in, got, want)
		}
	}
}
