package elf

import (
	"os"
	"sync/atomic"
	"testing"
)

const libcPath = "/usr/lib/x86_64-linux-gnu/libc.so.6"

// libcTree is the real root, and an address in the middle of qsort.
func libcTree(b testing.TB) (tr tree, vaddr uint64) {
	if _, err := os.Stat(libcPath); err != nil {
		b.Skip("no " + libcPath)
	}
	tr = tree{"/", new(atomic.Int64), new(atomic.Int64)}
	m := tr.module(b, NewSymbolizer(DefaultLimit), libcPath)
	defer m.Close()
	f := m.File()
	s, _ := f.Section(".dynsym")
	for i := range uint32(s.Size / 24) {
		if name, err := f.dynamicName(i); err == nil && name == "qsort" {
			entry, err := f.readAt(s.Offset+uint64(i)*24+8, 16)
			if err != nil {
				b.Fatal(err)
			}
			return tr, le.Uint64(entry) + le.Uint64(entry[8:])/2
		}
	}
	b.Skip("no qsort in " + libcPath)
	return tree{}, 0
}

// BenchmarkColdLibc: nothing is known; with a separate debug file if there is one.
func BenchmarkColdLibc(b *testing.B) {
	tr, vaddr := libcTree(b)
	var kept int64
	for b.Loop() {
		s := NewSymbolizer(DefaultLimit)
		m := tr.module(b, s, libcPath)
		if fr := m.Frame(vaddr); fr.Symbol == "" {
			b.Fatalf("%+v %q", fr, m.Warnings())
		}
		m.Close()
		kept = s.Stats().Bytes
	}
	b.ReportMetric(float64(kept)/(1<<20), "MiB-kept")
}

// BenchmarkColdSymbol is the same without source lines.
func BenchmarkColdSymbol(b *testing.B) {
	tr, vaddr := libcTree(b)
	for b.Loop() {
		m := tr.module(b, NewSymbolizer(DefaultLimit), libcPath)
		if name, _, _, ok := m.Symbol(vaddr); !ok {
			b.Fatal(name)
		}
		m.Close()
	}
}

// BenchmarkWarmRequest opens the module anew for each address, as the first
// address of a request does.
func BenchmarkWarmRequest(b *testing.B) {
	tr, vaddr := libcTree(b)
	s := NewSymbolizer(DefaultLimit)
	for b.Loop() {
		m := tr.module(b, s, libcPath)
		m.Frame(vaddr)
		m.Close()
	}
}

// BenchmarkWarmFrame is each further address of a request.
func BenchmarkWarmFrame(b *testing.B) {
	tr, vaddr := libcTree(b)
	m := tr.module(b, NewSymbolizer(DefaultLimit), libcPath)
	defer m.Close()
	for b.Loop() {
		m.Frame(vaddr)
	}
}

func BenchmarkWarmSymbol(b *testing.B) {
	tr, vaddr := libcTree(b)
	m := tr.module(b, NewSymbolizer(DefaultLimit), libcPath)
	defer m.Close()
	for b.Loop() {
		m.Symbol(vaddr)
	}
}

func BenchmarkOpen(b *testing.B) {
	f, err := os.Open(libcPath)
	if err != nil {
		b.Skip(err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := Open(f, st.Size()); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodeXZ(b *testing.B) {
	xz := xzFile(b, "crc64")
	b.SetBytes(20000)
	for b.Loop() {
		if _, err := decodeXZ(xz); err != nil {
			b.Fatal(err)
		}
	}
}
