package elf

import (
	"bufio"
	"bytes"
	delf "debug/elf"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// openPath opens a file of this host; the test ends with a skip if there is none.
func openPath(t testing.TB, path string) *File {
	t.Helper()
	fh, err := os.Open(path)
	if err != nil {
		t.Skipf("no %s: %v", path, err)
	}
	t.Cleanup(func() { fh.Close() })
	info, err := fh.Stat()
	if err != nil {
		t.Fatal(err)
	}
	f, err := Open(fh, info.Size())
	if err != nil {
		t.Fatalf("open %s: %v", path, err)
	}
	return f
}

// hostDebugFile returns the installed debug file of a library or program.
func hostDebugFile(t testing.TB, path string) string {
	t.Helper()
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		t.Skipf("no %s: %v", path, err)
	}
	id := hex.EncodeToString(openPath(t, real).BuildID())
	if len(id) < 3 {
		t.Skipf("%s has no build-id", real)
	}
	debug := filepath.Join(debugDir, ".build-id", id[:2], id[2:]+".debug")
	if _, err := os.Stat(debug); err != nil {
		t.Skipf("the debug file of %s is not installed", real)
	}
	return debug
}

// randomCode returns addresses within functions of the symbol table.
func randomCode(t testing.TB, path string, n int) (addrs []uint64) {
	t.Helper()
	f, err := delf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	syms, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	var total uint64
	funcs := syms[:0]
	for _, s := range syms {
		if delf.ST_TYPE(s.Info) == delf.STT_FUNC && s.Size > 0 && s.Section != delf.SHN_UNDEF {
			funcs = append(funcs, s)
			total += s.Size
		}
	}
	rnd := rand.New(rand.NewPCG(7, 7))
	for range n {
		at := rnd.Uint64N(total)
		for _, s := range funcs {
			if at < s.Size {
				addrs = append(addrs, s.Value+at)
				break
			}
			at -= s.Size
		}
	}
	return addrs
}

// TestLocateAgainstTools compares answers about libc and python with those of
// another reader, where both are installed. The functions' own names come from
// DWARF here and from the symbol table there, so names of inlined ones are compared.
func TestLocateAgainstTools(t *testing.T) {
	for _, tool := range []struct {
		name, command string
		args          []string
		exact         float64 // share of equal chains
	}{
		{"llvm-symbolizer", "llvm-symbolizer-19", []string{"--output-style=GNU", "--no-demangle", "-a", "-i", "-f", "-e"}, 1},
		// elfutils 0.188 leaves out callers now and then.
		{"eu-addr2line", "eu-addr2line", []string{"-a", "-i", "-f", "-e"}, 0.995},
	} {
		for _, target := range []string{"/lib/x86_64-linux-gnu/libc.so.6", "/usr/bin/python3.11"} {
			t.Run(tool.name+"/"+filepath.Base(target), func(t *testing.T) {
				command, err := exec.LookPath(tool.command)
				if err != nil {
					t.Skipf("no %s", tool.command)
				}
				debug := hostDebugFile(t, target)
				f := openPath(t, debug)
				// elfutils gives up on inlined functions whose origin is in another unit,
				// and takes long to do so.
				lto := tool.exact < 1 && strings.Contains(target, "python")
				n := 2000
				if lto {
					n = 300
				}
				addrs := randomCode(t, debug, n)
				theirs := askTool(t, command, append(tool.args, debug), addrs)
				position, chain := 0, 0
				for i, a := range addrs {
					ours := toolText(t, f, a)
					if ours[0].pos == theirs[i][0].pos {
						position++
					}
					if sameChain(ours, theirs[i]) {
						chain++
					} else if tool.exact == 1 {
						t.Errorf("%#x: %v, %s says %v", a, ours, tool.name, theirs[i])
					}
				}
				if position*1000 < n*999 {
					t.Errorf("%d of %d positions are equal", position, n)
				}
				if !lto && float64(chain) < tool.exact*float64(n) {
					t.Errorf("%d of %d chains are equal", chain, n)
				}
				t.Logf("%d addresses: %d positions and %d chains equal", n, position, chain)
			})
		}
	}
}

type toolFrame struct{ name, pos string }

func toolText(t *testing.T, f *File, addr uint64) (frames []toolFrame) {
	t.Helper()
	locs, err := f.Locate(addr)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range locs {
		frames = append(frames, toolFrame{l.Function, fmt.Sprintf("%s:%d", l.File, l.Line)})
	}
	if len(frames) == 0 {
		frames = []toolFrame{{"??", "??:0"}}
	}
	return frames
}

var (
	toolAddr   = regexp.MustCompile(`^0x[0-9a-f]+$`)
	toolPos    = regexp.MustCompile(`^(.*?):(\d+)(:\d+)?( \(discriminator \d+\))?$`)
	toolInline = regexp.MustCompile(` inlined at .*`)
)

func askTool(t *testing.T, command string, args []string, addrs []uint64) (answers [][]toolFrame) {
	t.Helper()
	var in bytes.Buffer
	for _, a := range addrs {
		fmt.Fprintf(&in, "%#x\n", a)
	}
	cmd := exec.Command(command, args...)
	cmd.Stdin = &in
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v", command, err)
	}
	name := ""
	for sc := bufio.NewScanner(bytes.NewReader(out)); sc.Scan(); {
		line := sc.Text()
		if toolAddr.MatchString(line) {
			answers, name = append(answers, nil), ""
			continue
		}
		last := len(answers) - 1
		if name == "" {
			name = toolInline.ReplaceAllString(line, "")
			continue
		}
		m := toolPos.FindStringSubmatch(line)
		if m == nil {
			t.Fatalf("%s: %q", command, line)
		}
		n, _ := strconv.Atoi(m[2]) // digits only
		answers[last] = append(answers[last], toolFrame{name, fmt.Sprintf("%s:%d", onePath(m[1]), n)})
		name = ""
	}
	if len(answers) != len(addrs) {
		t.Fatalf("%s: %d answers for %d addresses", command, len(answers), len(addrs))
	}
	return answers
}

// onePath writes a path as Locate does. Tools put a relative compilation directory
// before a directory that already begins with it.
func onePath(p string) string {
	p = join("", p)
	for i := range p {
		if p[i] == '/' && strings.HasPrefix(p[i+1:], p[:i+1]) {
			return p[i+1:]
		}
	}
	return p
}

func sameChain(a, b []toolFrame) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].pos != b[i].pos || i < len(a)-1 && a[i].name != b[i].name {
			return false
		}
	}
	return true
}

func BenchmarkLocateWarm(b *testing.B) {
	debug := hostDebugFile(b, "/lib/x86_64-linux-gnu/libc.so.6")
	f := openPath(b, debug)
	addr := randomCode(b, debug, 1)[0]
	b.ReportAllocs()
	for b.Loop() {
		if _, err := f.Locate(addr); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkLocateUnit is an address in a unit that is not parsed yet, in a file
// whose sections are inflated.
func BenchmarkLocateUnit(b *testing.B) {
	debug := hostDebugFile(b, "/lib/x86_64-linux-gnu/libc.so.6")
	f := openPath(b, debug)
	addrs := randomCode(b, debug, 500)
	for _, a := range addrs {
		if _, err := f.Locate(a); err != nil {
			b.Fatal(err)
		}
	}
	i := 0
	for b.Loop() {
		f.data.dwarf.keepUnits(0)
		f.data.dwarf.work = 0
		if _, err := f.Locate(addrs[i%len(addrs)]); err != nil {
			b.Fatal(err)
		}
		i++
	}
	b.ReportMetric(float64(f.data.bytes)/(1<<20), "MiB-kept")
}
