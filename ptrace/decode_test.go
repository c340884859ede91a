package ptrace

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// code reads bytes as they are written in manuals.
func code(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestDecodeText(t *testing.T) {
	names := map[uint64]string{0x401136: "main+0x10", 0x402004: "msg", 0x401000: "start", 0x404018: "puts@got"}
	for _, c := range []struct{ code, want string }{
		// Branches and RIP-relative operands tell where they lead.
		{"e8 31 01 00 00", "call 0x401136 <main+0x10>"},
		{"74 fe", "je 0x401000 <start>"},
		{"0f 8f 00 00 00 00", "jg 0x401006"},
		{"48 8d 3d fd 0f 00 00", "lea rdi, [rip + 0xffd]  # 0x402004 <msg>"},
		{"ff 25 12 30 00 00", "jmp qword ptr [rip + 0x3012]  # 0x404018 <puts@got>"},
		{"8b 05 00 00 00 00", "mov eax, dword ptr [rip]  # 0x401006"},
		{"67 8b 05 f9 ff ff ff", "mov eax, dword ptr [eip - 7]  # 0x401000 <start>"},
		{"c5 fc 10 05 fc 0f 00 00", "vmovups ymm0, ymmword ptr [rip + 0xffc]  # 0x402004 <msg>"},
		{"62 f1 7c 48 10 05 fa 0f 00 00", "vmovups zmm0, zmmword ptr [rip + 0xffa]  # 0x402004 <msg>"},
		{"c7 05 fa 0f 00 00 78 56 34 12", "mov dword ptr [rip + 0xffa], 0x12345678  # 0x402004 <msg>"},
		{"e2 fe", "loop 0x401000 <start>"},
		{"c7 f8 00 00 00 00", "xbegin 0x401006"},

		// Operands.
		{"48 8b 45 f8", "mov rax, qword ptr [rbp - 8]"},
		{"44 8a 64 8d 7f", "mov r12b, byte ptr [rbp + 4*rcx + 0x7f]"},
		{"64 48 8b 04 25 28 00 00 00", "mov rax, qword ptr fs:[0x28]"},
		{"65 48 8b 04 25 f8 ff ff ff", "mov rax, qword ptr gs:[-8]"},
		{"8b 04 c5 34 12 00 00", "mov eax, dword ptr [8*rax + 0x1234]"},
		{"42 8b 04 20", "mov eax, dword ptr [rax + r12]"},
		{"8a e5", "mov ah, ch"},
		{"40 8a e5", "mov spl, bpl"},
		{"6a ff", "push -1"},
		{"48 83 c0 80", "add rax, -0x80"},
		{"b8 ff ff ff ff", "mov eax, 0xffffffff"},
		{"48 c7 c0 ff ff ff ff", "mov rax, -1"},
		{"49 bf 88 77 66 55 44 33 22 11", "movabs r15, 0x1122334455667788"},
		{"48 a1 00 00 00 00 00 00 00 80", "movabs rax, qword ptr [0x8000000000000000]"},
		{"d1 e0", "shl eax, 1"},
		{"c8 00 01 00", "enter 0x100, 0"},
		{"cd 80", "int 0x80"},
		{"cc", "int3"},
		{"0f a2", "cpuid"},
		{"93", "xchg eax, ebx"},
		{"0f 20 c0", "mov rax, cr0"},
		{"8e d8", "mov ds, eax"},

		// String instructions and prefixes.
		{"f3 48 ab", "rep stosq qword ptr es:[rdi], rax"},
		{"f2 ae", "repne scasb al, byte ptr es:[rdi]"},
		{"f3 a6", "repe cmpsb byte ptr [rsi], byte ptr es:[rdi]"},
		{"64 a4", "movsb byte ptr es:[rdi], byte ptr fs:[rsi]"},
		{"f0 48 0f c7 0f", "lock cmpxchg16b xmmword ptr [rdi]"},
		{"f2 f0 ff 00", "xacquire lock inc dword ptr [rax]"},
		{"f3 c6 00 01", "xrelease mov byte ptr [rax], 1"},
		{"f3 c3", "rep ret"},
		{"f2 ff e0", "bnd jmp rax"},
		{"3e ff e0", "notrack jmp rax"},
		{"66 66 48 e8 2d 01 00 00", "data16 data16 call 0x401135"},
		{"66 48 8d 3d fc 0f 00 00", "data16 lea rdi, [rip + 0xffc]  # 0x402004 <msg>"},

		// No operation.
		{"90", "nop"},
		{"66 90", "nop"},
		{"f3 90", "pause"},
		{"41 90", "xchg eax, r8d"},
		{"0f 1f 00", "nop dword ptr [rax]"},
		{"66 2e 0f 1f 84 00 00 00 00 00", "nop word ptr cs:[rax + rax]"},
		{"66 66 2e 0f 1f 84 00 00 00 00 00", "data16 nop word ptr cs:[rax + rax]"},

		// x87 and SSE.
		{"db 28", "fld tbyte ptr [rax]"},
		{"dd d8", "fstp st(0)"},
		{"d8 c3", "fadd st, st(3)"},
		{"de c1", "faddp st(1), st"},
		{"d9 c9", "fxch st(1)"},
		{"0f c2 c1 01", "cmpltps xmm0, xmm1"},
		{"f2 0f c2 c1 06", "cmpnlesd xmm0, xmm1"},
		{"0f c2 c1 09", "cmpps xmm0, xmm1, 9"},

		// What the library does not know or reads wrongly.
		{"f3 0f 1e fa", "endbr64"},
		{"c5 f8 77", "vzeroupper"},
		{"c5 fc 77", "vzeroall"},
		{"f3 48 0f 1e c8", "rdsspq rax"},
		{"66 0f 3a ce d1 03", "gf2p8affineqb xmm2, xmm1, 3"},
		{"66 0f ae 38", "clflushopt byte ptr [rax]"},
		{"66 0f ae 30", "clwb byte ptr [rax]"},
		{"0f 01 ef", "wrpkru"},
		{"0f c7 f8", "rdseed eax"},
		{"f3 48 0f ae e8", "incsspq rax"},
		{"66 41 0f 38 f6 c0", "adcx eax, r8d"},
		{"0f 0f c1 9e", "pfadd mm0, mm1"},

		// AVX and AVX-512.
		{"c4 41 7c 10 1c 24", "vmovups ymm11, ymmword ptr [r12]"},
		{"c4 e2 65 90 0c 90", "vpgatherdd ymm1, ymmword ptr [rax + 4*ymm2], ymm3"},
		{"62 f3 65 c9 25 e2 d8", "vpternlogd zmm4 {k1} {z}, zmm3, zmm2, 0xd8"},
		{"62 f1 6c 18 58 d9", "vaddps zmm3, zmm2, zmm1, {rn-sae}"},
		{"62 f1 6c 58 58 18", "vaddps zmm3, zmm2, dword ptr [rax]{1to16}"},
		{"62 f1 ed 18 c2 cb 01", "vcmpltpd k1, zmm2, zmm3, {sae}"},
		{"62 f3 6d 48 3e cb 00", "vpcmpequb k1, zmm2, zmm3"},
		{"62 f3 6d 48 3e cb 03", "vpcmpub k1, zmm2, zmm3, 3"},
		{"62 f1 7c 48 10 40 01", "vmovups zmm0, zmmword ptr [rax + 0x40]"},
		{"62 f5 6c 48 58 d9", "vaddph zmm3, zmm2, zmm1"},
		{"62 f2 7e 48 28 c1", "vpmovm2b zmm0, k1"},
		{"c4 e1 f9 73 f0 03", "vpsllq xmm0, xmm0, 3"}, // W=1, as HotSpot writes it
		{"64 c5 fb 10 00", "vmovsd xmm0, qword ptr fs:[rax]"},
		{"67 c5 fb 10 00", "vmovsd xmm0, qword ptr [eax]"},
		{"c4 e2 7b 4b 44 11 10", "tileloadd tmm0, [rcx + rdx + 0x10]"},
		{"8f e8 78 a2 c2 10", "vpcmov xmm0, xmm0, xmm2, xmm1"},
		{"c4 e3 f9 69 c2 10", "vfmaddpd xmm0, xmm0, xmm1, xmm2"},

		// No name, and the right length.
		{"d5 19 89 c8", "(unknown)"},
		{"62 f4 7c 18 01 c8", "(unknown)"},
		{"c4 e2 78 ff c1", "(unknown)"},
		{"62 f1 7c 68 58 00", "(unknown)"},
		{"0f 38 ff c0", "(unknown)"},
		{"62 f1 fc 48 58 c1", "(unknown)"}, // VADDPS with W=1
		{"c4 e1 7d 90 c1", "(unknown)"},    // KMOVB with L=1
		// No instruction, one byte of it.
		{"06", "(bad)"},
		{"ea", "(bad)"},
	} {
		b := code(t, c.code)
		got := Decode(slices.Concat(b, []byte{0x90}), 0x401000, 1, func(a uint64) string { return names[a] })
		if len(got) != 1 || got[0].Text != c.want || !bytes.Equal(got[0].Bytes, b) || got[0].Address != 0x401000 {
			t.Errorf("%s: got %+v, want %q", c.code, got, c.want)
		}
	}
}

// The length of an instruction does not depend on whether it is known.
func TestDecodeKeepsStep(t *testing.T) {
	b := code(t, "d5 19 81 c8 44 33 22 11  62 f4 7c 18 81 c8 01 00 00 00  62 f4 7d 18 81 c8 01 00  c4 e3 7b ff 40 10 07  8f ea 78 13 c2 01 02 03 04  d5 00 a1 01 02 03 04 05 06 07 08  c4 e7 7b f8 c0 01 02 03 04  c3")
	var lengths []int
	for _, in := range Decode(b, 0, 100, nil) {
		lengths = append(lengths, len(in.Bytes))
	}
	if want := []int{8, 10, 8, 7, 9, 11, 9, 1}; !reflect.DeepEqual(lengths, want) {
		t.Errorf("lengths: got %v, want %v", lengths, want)
	}
}

func TestDecodeBounds(t *testing.T) {
	b := code(t, "55 48 89 e5 c3 e8 01 02 03")
	texts := func(list []Instruction) (s []string) {
		for _, in := range list {
			s = append(s, fmt.Sprintf("%x %s", in.Address, in.Text))
		}
		return s
	}
	for _, c := range []struct {
		what string
		code []byte
		pc   uint64
		n    int
		want []string
	}{
		{"the last instruction is cut", b, 0x10, 32, []string{"10 push rbp", "11 mov rbp, rsp", "14 ret"}},
		{"no more than asked for", b, 0x10, 2, []string{"10 push rbp", "11 mov rbp, rsp"}},
		{"none", b, 0x10, 0, nil},
		{"fewer than none", b, 0x10, -1, nil},
		{"no code", nil, 0x10, 32, nil},
		{"prefixes only", []byte{0x66, 0xf3, 0x48}, 0, 32, nil},
		{"15 bytes are too many", bytes.Repeat([]byte{0x66}, 16), 0, 1, []string{"0 (bad)"}},
		{"the address space ends", code(t, "90 eb 01 90"), ^uint64(0), 3, []string{"ffffffffffffffff nop", "0 jmp 0x3", "2 nop"}},
	} {
		if got := texts(Decode(c.code, c.pc, c.n, nil)); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %q, want %q", c.what, got, c.want)
		}
	}
	// The bytes cannot grow into what is behind them.
	if in := Decode(b, 0, 1, nil)[0]; cap(in.Bytes) != 1 {
		t.Errorf("capacity of the first instruction: got %d, want 1", cap(in.Bytes))
	}
}

// Names come from files of the target.
func TestDecodeHostileNames(t *testing.T) {
	call := code(t, "e8 00 00 00 00")
	for name, want := range map[string]string{
		"a\nb\x1b[31m\u202e": "call 0x5 <a\ufffdb\ufffd[31m\ufffd>",
		"a\xffb":             "call 0x5 <a\ufffdb>",
		"µ::ok<T>":           "call 0x5 <µ::ok<T>>",
	} {
		if got := Decode(call, 0, 1, func(uint64) string { return name })[0].Text; got != want {
			t.Errorf("name %q: got %q, want %q", name, got, want)
		}
	}
	long := Decode(call, 0, 1, func(uint64) string { return strings.Repeat("é", 100_000) })[0].Text
	if want := "call 0x5 <" + strings.Repeat("é", maxSymbolText/2) + "…>"; long != want {
		t.Errorf("long name: got %d bytes, want %d", len(long), len(want))
	}
}

// checkDecode holds what must be true of any code.
func checkDecode(t testing.TB, code []byte, pc uint64, n int) {
	t.Helper()
	list := Decode(code, pc, n, nil)
	if len(list) > max(n, 0) {
		t.Fatalf("%x: %d instructions, want at most %d", code, len(list), n)
	}
	at := 0
	for _, in := range list {
		if len(in.Bytes) < 1 || len(in.Bytes) > longestInstruction || at+len(in.Bytes) > len(code) {
			t.Fatalf("%x: instruction of %d bytes at %d", code, len(in.Bytes), at)
		}
		if in.Address != pc+uint64(at) || &in.Bytes[0] != &code[at] {
			t.Fatalf("%x: address %x at %d", code, in.Address, at)
		}
		if in.Text == "" || len(in.Text) > 200 || !utf8.ValidString(in.Text) || strings.ContainsFunc(in.Text, unicode.IsControl) ||
			strings.TrimSpace(in.Text) != in.Text {
			t.Fatalf("%x: text %q", in.Bytes, in.Text)
		}
		at += len(in.Bytes)
	}
	if rest := len(code) - at; len(list) < n && rest >= longestInstruction {
		t.Fatalf("%x: %d bytes are left", code, rest)
	}
}

func TestDecodeEveryOpcode(t *testing.T) {
	prefixes := [][]byte{{}, {0x66}, {0xf2}, {0xf3}, {0x48}, {0x67}, {0xf0}, {0x66, 0x4f}, {0x64, 0xf2, 0x41}}
	maps := [][]byte{{}, {0x0f}, {0x0f, 0x38}, {0x0f, 0x3a}, {0xd5, 0x00}, {0xd5, 0xff}}
	for m := range byte(32) {
		for _, p := range []byte{0x78, 0xe5, 0x03} {
			maps = append(maps, []byte{0xc4, 0xe0 | m, p}, []byte{0x8f, 0xe0 | m, p})
		}
	}
	for m := range byte(16) {
		for _, p := range []byte{0x7c, 0xe5} {
			for _, q := range []byte{0x08, 0x49, 0xff} {
				maps = append(maps, []byte{0x62, 0xf0 | m, p, q})
			}
			maps = append(maps, []byte{0x62, m, p, 0x98})
		}
	}
	forms := [][]byte{{0xc1}, {0xff}, {0x05}, {0x44, 0x91}, {0x84, 0x25}, {0x38}}
	tail := []byte{0x80, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}
	for _, m := range maps {
		for op := range 256 {
			for f, form := range forms {
				for i, p := range prefixes {
					if len(m) > 2 && i > 0 && f > 0 {
						break // they are refused before the opcode is looked at
					}
					checkDecode(t, slices.Concat(p, m, []byte{byte(op)}, form, tail), 0x1000, 2)
				}
			}
		}
	}
}

// Every prefix of real code is cut somewhere else.
func TestDecodeCutAnywhere(t *testing.T) {
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	self = self[0x1000:][:4096]
	for n := range self {
		checkDecode(t, self[n:min(n+40, len(self))], uint64(n), 32)
		checkDecode(t, self[:n%64], uint64(n), 32)
	}
}

func FuzzDecode(f *testing.F) {
	for _, s := range []string{
		"f30f1efa554889e5e800000000c3", "c5f877c5fc77c4e17c77", "62f36dc925e2d862f16c1858d9", "d51981c844332211",
		"8fe878a2c210", "c4e2659 00c90", "66662e0f1f840000000000", "f0f2f366672e4f0fc7c8", "0f0fc19e", "c7f800000000c6f801",
		"62f57c487f00", "c4e27b4b441110", "a10102030405060708", "67a1010203 04", "62f4fc1801c8",
	} {
		f.Add(code(f, s), uint64(0x401000), 8)
	}
	f.Fuzz(func(t *testing.T, code []byte, pc uint64, n int) {
		n = n & 63
		checkDecode(t, code, pc, n)
		if a, b := Decode(code, pc, n, nil), Decode(code, pc, n, nil); !reflect.DeepEqual(a, b) {
			t.Fatalf("%x: twice is different: %v, %v", code, a, b)
		}
		// Where an instruction ends does not depend on what is asked for, or where it stands.
		if list := Decode(code, pc, n, nil); len(list) > 1 {
			rest := Decode(code[len(list[0].Bytes):], list[1].Address, n-1, nil)
			if !reflect.DeepEqual(rest, list[1:]) {
				t.Fatalf("%x: the rest alone is different: %v, %v", code, rest, list[1:])
			}
		}
	})
}

func TestSupplementTable(t *testing.T) {
	known := 0
	for key, list := range specialTable() {
		for i, s := range list {
			known++
			if s.name != strings.ToLower(s.name) {
				t.Errorf("%x: name %q", key, s.name)
			}
			for _, earlier := range list[:i] {
				if reflect.DeepEqual(earlier, s) {
					t.Errorf("%x: %q twice", key, s.name)
				}
			}
		}
	}
	if known < 500 {
		t.Errorf("%d entries, want 500 at least", known)
	}
	for _, line := range []string{"l1.01", "q1.01 - name", "l1.xyz - name", "l1.01 /9 name", "l1.01 what name", "l1.01 - name A,B more"} {
		if err := (specials{}).add(line); err == nil {
			t.Errorf("line %q: no error", line)
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		b.Fatal(err)
	}
	self = self[0x1000:][:256<<10]
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		n += len(Decode(self, 0x401000, 1<<20, nil))
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/instruction")
}
