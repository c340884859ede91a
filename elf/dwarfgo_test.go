package elf

import (
	"debug/gosym"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Go writes no .debug_aranges, one abbreviation table for all units and DWARF 5
// with indexed addresses. Its own line table is a second witness.
func TestLocateGo(t *testing.T) {
	tool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("no go command to build a program with")
	}
	dir := t.TempDir()
	source := filepath.Join(dir, "main.go")
	const text = `package main

import "strings"

var sink int

func inner(x int) int {
	sink = x
	return x * 3
}

func outer(x int) int {
	y := inner(x)
	return y + inner(y+1)
}

//go:noinline
func notInlined(s string) int {
	return outer(len(strings.ToUpper(s))) + outer(sink)
}

func main() {
	for i := 0; i < 3; i++ {
		sink = notInlined("abc")
	}
	println(sink)
}
`
	if err := os.WriteFile(source, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []string{"-ldflags=", "-ldflags=-compressdwarf=false"} {
		exe := filepath.Join(dir, "program")
		cmd := exec.Command(tool, "build", mode, "-o", exe, source)
		cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off", "GO111MODULE=off", "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go build: %v\n%s", err, out)
		}
		fh, err := os.Open(exe)
		if err != nil {
			t.Fatal(err)
		}
		defer fh.Close()
		info, err := fh.Stat()
		if err != nil {
			t.Fatal(err)
		}
		f, err := Open(fh, info.Size())
		if err != nil {
			t.Fatal(err)
		}
		table := goTable(t, f)
		same, all := 0, 0
		inlined := false
		for _, name := range []string{"main.main", "main.notInlined", "strings.ToUpper", "runtime.mallocgc", "runtime.schedule", "fmt.Fprintf"} {
			fn := table.LookupFunc(name)
			if fn == nil {
				continue
			}
			for pc := fn.Entry; pc < fn.End; pc++ {
				file, line, _ := table.PCToLine(pc)
				locs, err := f.Locate(pc)
				if err != nil {
					t.Fatal(err)
				}
				if len(locs) == 0 {
					continue // padding behind the last instruction
				}
				all++
				if locs[0].File == file && locs[0].Line == line {
					same++
				}
				last := locs[len(locs)-1].Function
				if last != name && last != "" {
					t.Fatalf("Locate(%#x) ends in %q, not in %s", pc, last, name)
				}
				if name == "main.notInlined" && len(locs) == 3 && locs[0].Function == "main.inner" && locs[1].Function == "main.outer" {
					inlined = true
					if locs[2].File != source || locs[2].Line != 19 || locs[1].Line != 13 && locs[1].Line != 14 {
						t.Fatalf("Locate(%#x) = %v", pc, locs)
					}
				}
			}
		}
		if !inlined {
			t.Errorf("%s: inner in outer in notInlined is nowhere", mode)
		}
		if all < 1000 || same*100 < all*99 {
			t.Errorf("%s: %d of %d addresses have the line that Go's own table has", mode, same, all)
		}
		checkCharges(t, f)
	}
}

func goTable(t *testing.T, f *File) *gosym.Table {
	t.Helper()
	s, ok := f.Section(".gopclntab")
	if !ok {
		t.Fatal("no .gopclntab")
	}
	b, err := f.Data(s)
	if err != nil {
		t.Fatal(err)
	}
	defer f.release(b)
	text, ok := f.Section(".text")
	if !ok {
		t.Fatal("no .text")
	}
	table, err := gosym.NewTable(nil, gosym.NewLineTable(b, text.Addr))
	if err != nil {
		t.Fatal(err)
	}
	return table
}
