package ptrace

import (
	"bufio"
	"bytes"
	delf "debug/elf"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The comparison with LLVM. By default it takes the test binary and the C library;
// PROCINSH_DISASM names other files, separated by colons: ELF files by their
// executable sections, others ("*.bin") as bare code. "sweep" is every opcode in
// every form. PROCINSH_DISASM_SHOW is how many differences are printed.

func findObjdump(t testing.TB) string {
	for _, name := range []string{"llvm-objdump-19", "llvm-objdump-20", "llvm-objdump-21", "llvm-objdump"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("llvm-objdump is not installed: only the stored texts are compared")
	return ""
}

// wrapELF makes code a file that a disassembler takes, without anything that could
// lead it to other files.
func wrapELF(code []byte, addr uint64) []byte {
	names := "\x00.text\x00.shstrtab\x00"
	const head, section = 64, 64
	var b bytes.Buffer
	b.WriteString("\x7fELF\x02\x01\x01" + strings.Repeat("\x00", 9))
	put := func(v any) { binary.Write(&b, binary.LittleEndian, v) }
	textAt := uint64(head)
	namesAt := textAt + uint64(len(code))
	put([]uint16{uint16(delf.ET_DYN), uint16(delf.EM_X86_64)})
	put(uint32(1))
	put([]uint64{addr, 0, namesAt + uint64(len(names))})
	put(uint32(0))
	put([]uint16{head, 0, 0, section, 3, 2})
	b.Write(code)
	b.WriteString(names)
	put(delf.Section64{})
	put(delf.Section64{Name: 1, Type: uint32(delf.SHT_PROGBITS), Flags: uint64(delf.SHF_ALLOC | delf.SHF_EXECINSTR), Addr: addr, Off: textAt, Size: uint64(len(code)), Addralign: 1})
	put(delf.Section64{Name: 7, Type: uint32(delf.SHT_STRTAB), Off: namesAt, Size: uint64(len(names)), Addralign: 1})
	return b.Bytes()
}

type llvmInstruction struct {
	address uint64
	code    []byte
	text    string
}

// llvmDecode calls yield for every instruction LLVM finds in code. Prefixes that
// it puts on lines of their own are joined to what they belong to.
func llvmDecode(t testing.TB, objdump string, code []byte, addr uint64, yield func(llvmInstruction)) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "code.elf")
	if err := os.WriteFile(path, wrapELF(code, addr), 0o600); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(path)
	cmd := exec.Command(objdump, "-d", "-M", "intel", "--no-print-imm-hex", path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	sc := bufio.NewScanner(out)
	var prefix llvmInstruction
	for sc.Scan() {
		head, text, ok := strings.Cut(sc.Text(), "\t")
		at, raw, ok2 := strings.Cut(strings.TrimSpace(head), ":")
		if !ok || !ok2 {
			continue
		}
		a, err := strconv.ParseUint(at, 16, 64)
		if err != nil {
			continue
		}
		b, err := hex.DecodeString(strings.ReplaceAll(raw, " ", ""))
		if err != nil || len(b) == 0 {
			continue
		}
		in := llvmInstruction{a, b, strings.Join(strings.Fields(text), " ")}
		if prefix.code != nil {
			in = llvmInstruction{prefix.address, append(prefix.code, b...), prefix.text + " " + in.text}
			prefix.code = nil
		}
		if onlyPrefixes(in.text) {
			prefix = in
			continue
		}
		yield(in)
	}
	if err := cmd.Wait(); err != nil || sc.Err() != nil {
		t.Fatalf("%s: %v, %v", objdump, err, sc.Err())
	}
}

func onlyPrefixes(text string) bool {
	for _, word := range strings.Fields(text) {
		if !llvmPrefix[word] {
			return false
		}
	}
	return true
}

var llvmPrefix = map[string]bool{"lock": true, "rep": true, "repne": true, "xacquire": true, "xrelease": true,
	"data16": true, "addr32": true, "cs": true, "ds": true, "es": true, "ss": true, "fs": true, "gs": true, "rex64": true, "notrack": true}

var (
	reSymbol = regexp.MustCompile(` ?<[^>]*>`)
	reNumber = regexp.MustCompile(`\b(0x[0-9a-f]+|[0-9]+)\b`)
	// Prefixes of which LLVM shows one and not the other.
	rePrefix = regexp.MustCompile(`^((data16|addr32|bnd|notrack|rep|repe|repne|xacquire|xrelease|lock|rex64|[c-gs]s) )+`)
)

// commonText brings a text of either side into one form.
func commonText(s string) (mnemonic, all string) {
	s, _, _ = strings.Cut(s, "#")
	s = strings.TrimPrefix(strings.TrimPrefix(s, "{vex} "), "{evex} ")
	s = reSymbol.ReplaceAllString(s, "")
	s = strings.TrimSpace(strings.ToLower(s))
	if m := rePrefix.FindString(s); m != "" {
		s = s[len(m):]
	}
	s = reNumber.ReplaceAllStringFunc(s, func(n string) string {
		v, _ := strconv.ParseUint(n, 0, 64)
		return strconv.FormatUint(v, 10)
	})
	mnemonic, _, _ = strings.Cut(s, " ")
	if shifts[mnemonic] {
		s = strings.TrimSuffix(s, ", 1") // LLVM leaves it out
	}
	return mnemonic, s
}

var shifts = wordSet("rol ror rcl rcr shl shr sar")

type comparison struct {
	total, unknown, length, mnemonic, text int
	differ                                 map[string]int
	example                                map[string]string
}

func (c *comparison) add(want llvmInstruction, code []byte) {
	if strings.Contains(want.text, "<unknown>") {
		c.unknown++
		if os.Getenv("PROCINSH_DISASM_EXCESS") == "" {
			return
		}
	}
	c.total++
	got := Decode(code, want.address, 1, nil)
	text, size := "nothing", 0
	if len(got) == 1 {
		text, size = got[0].Text, len(got[0].Bytes)
	}
	gotName, gotAll := commonText(text)
	wantName, wantAll := commonText(want.text)
	key := ""
	if size == len(want.code) {
		c.length++
	} else {
		key = "length"
	}
	if gotName == wantName && size == len(want.code) {
		c.mnemonic++
	} else if key == "" {
		key = "name"
	}
	if gotAll == wantAll && size == len(want.code) {
		c.text++
	} else if key == "" {
		key = "text"
	}
	if key != "" {
		key += " " + wantName + " / " + gotName
		c.differ[key]++
		if c.differ[key] == 1 {
			c.example[key] = fmt.Sprintf("%x: LLVM %q, here %q (%d)", want.code, want.text, text, size)
		}
	}
}

func (c *comparison) report(t testing.TB, what string) {
	percent := func(n int) float64 { return 100 * float64(n) / float64(max(c.total, 1)) }
	t.Logf("%-28s %9d instructions, %7d unknown to LLVM; same length %8.4f %%, mnemonic %8.4f %%, text %8.4f %%",
		what, c.total, c.unknown, percent(c.length), percent(c.mnemonic), percent(c.text))
	show, _ := strconv.Atoi(os.Getenv("PROCINSH_DISASM_SHOW"))
	keys := slices.SortedFunc(maps.Keys(c.differ), func(a, b string) int { return c.differ[b] - c.differ[a] })
	for _, k := range keys[:min(show, len(keys))] {
		t.Logf("  %7d  %-40s %s", c.differ[k], k, c.example[k])
	}
}

func newComparison() *comparison {
	return &comparison{differ: map[string]int{}, example: map[string]string{}}
}

func compareWithLLVM(t testing.TB, objdump string, c *comparison, code []byte, addr uint64) {
	llvmDecode(t, objdump, code, addr, func(in llvmInstruction) {
		c.add(in, code[in.address-addr:])
	})
}

func TestCompareWithLLVM(t *testing.T) {
	objdump := findObjdump(t)
	files := []string{"/proc/self/exe", "/lib/x86_64-linux-gnu/libc.so.6"}
	most := 256 << 10
	if env := os.Getenv("PROCINSH_DISASM"); env != "" {
		files, most = strings.Split(env, ":"), 16<<20
	}
	for _, file := range files {
		c := newComparison()
		if strings.HasPrefix(file, "sweep") {
			sweep(file, func(code []byte) { compareSlots(t, objdump, c, code) })
		} else {
			for _, part := range codeOf(t, file, most) {
				compareWithLLVM(t, objdump, c, part.Bytes, part.Address)
			}
		}
		c.report(t, file)
		if c.total == 0 {
			t.Logf("%s has no code here, it is not compared", file)
		}
		if float64(c.length) < 0.999*float64(c.total) || float64(c.mnemonic) < 0.999*float64(c.total) {
			t.Errorf("%s: less than 99.9 %% agree with LLVM", file)
		}
	}
}

// codeOf returns the executable sections of a file, up to most bytes of each.
func codeOf(t testing.TB, file string, most int) []Copy {
	t.Helper()
	if strings.HasSuffix(file, ".bin") {
		code, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return []Copy{{0x400000, code}}
	}
	f, err := delf.Open(file)
	if err != nil {
		t.Logf("%s: %v", file, err)
		return nil
	}
	defer f.Close()
	var parts []Copy
	for _, s := range f.Sections {
		if s.Type != delf.SHT_PROGBITS || s.Flags&delf.SHF_EXECINSTR == 0 {
			continue
		}
		code := make([]byte, min(s.Size, uint64(most)))
		if _, err := s.ReadAt(code, 0); err != nil {
			t.Fatal(err)
		}
		parts = append(parts, Copy{s.Addr, code})
	}
	return parts
}

const slot = 32 // bytes for one try of the sweep

// compareSlots compares only the instructions that start a slot.
func compareSlots(t testing.TB, objdump string, c *comparison, code []byte) {
	llvmDecode(t, objdump, code, 0, func(in llvmInstruction) {
		if in.address%slot == 0 {
			c.add(in, code[in.address:])
		}
	})
}

// sweep makes one slot of every opcode of every map in its forms; flush gets them
// in pieces.
func sweep(what string, flush func(code []byte)) {
	var code []byte
	put := func(head ...byte) {
		start := len(code)
		code = append(code, head...)
		if what == "sweep-plain" {
			code = append(code, 0x85, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff)
		} else {
			code = append(code, 5, 0, 0, 0, 0, 0, 0, 0)
		}
		for len(code) < start+slot {
			code = append(code, 0x90)
		}
		if len(code) >= 32<<20 {
			flush(code)
			code = code[:0]
		}
	}
	// ModRM with a register, and with memory and an 8-bit displacement.
	var forms [][]byte
	for reg := byte(0); reg < 8; reg++ {
		forms = append(forms, []byte{0xc2 | reg<<3}, []byte{0x42 | reg<<3, 0x10}, []byte{0x44 | reg<<3, 0x91, 0x10})
	}
	few := [][]byte{{0xca}, {0x4a, 0x10}, {0x4c, 0x91, 0x10}, {0x0d, 0x10, 0, 0, 0}}
	for op := range 256 {
		op := byte(op)
		switch what {
		case "sweep-plain":
			for _, prefix := range [][]byte{{}, {0x66}, {0xf3}, {0xf2}, {0x48}, {0x66, 0x48}, {0xf3, 0x48}, {0xf2, 0x48}, {0x67}, {0x66, 0xf2}, {0x4f}, {0x64}} {
				for _, m := range [][]byte{{}, {0x0f}, {0x0f, 0x38}, {0x0f, 0x3a}} {
					if len(m) == 0 && (isLegacyPrefix(op) || op&0xf0 == 0x40 || op == 0x0f || op == 0xc4 || op == 0xc5 || op == 0x62 || op == 0xd5 || op == 0x8f) {
						continue
					}
					for _, f := range forms {
						put(slices.Concat(prefix, m, []byte{op}, f)...)
					}
					if len(m) < 2 {
						for modrm := 0xc0; modrm < 256; modrm++ {
							put(slices.Concat(prefix, m, []byte{op, byte(modrm)})...)
						}
					}
				}
			}
		case "sweep-vex":
			for m := byte(1); m <= 3; m++ {
				for p := range byte(8) {
					for _, w := range []byte{0, 0x80} {
						for _, v := range []byte{0x78, 0x60} {
							for _, f := range forms {
								put(slices.Concat([]byte{0xc4, 0xe0 | m, w | v | p, op}, f)...)
							}
						}
					}
				}
			}
		case "sweep-xop":
			for m := byte(8); m <= 10; m++ {
				for p := range byte(8) {
					for _, w := range []byte{0, 0x80} {
						for _, v := range []byte{0x78, 0x60} {
							for _, f := range forms {
								put(slices.Concat([]byte{0x8f, 0xe0 | m, w | v | p, op}, f)...)
							}
						}
					}
				}
			}
		case "sweep-evex":
			for m := byte(1); m <= 6; m++ {
				if m == 4 {
					continue
				}
				for p := range byte(4) {
					for _, w := range []byte{0, 0x80} {
						for _, v := range []byte{0x78, 0x60} {
							for l := range byte(4) {
								if v == 0x60 && l != 1 {
									continue
								}
								for _, z := range []byte{8, 9, 0x89, 0x18, 0x19} {
									if l == 3 && z&0x10 == 0 {
										continue
									}
									for _, f := range few {
										if l == 3 && f[0] < 0xc0 {
											continue
										}
										put(slices.Concat([]byte{0x62, 0xf0 | m, w | v | 4 | p, l<<5 | z, op}, f)...)
									}
									if v == 0x78 && z == 8 || m == 1 && op >= 0x71 && op <= 0x73 || m == 2 && op >= 0xc6 && op <= 0xc7 {
										for _, f := range forms {
											put(slices.Concat([]byte{0x62, 0xf0 | m, w | v | 4 | p, l<<5 | z, op}, f)...)
										}
									}
								}
							}
						}
					}
				}
			}
		}
	}
	flush(code)
}
