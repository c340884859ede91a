package main

import (
	"runtime/debug"
	"testing"
)

// The server stays below 256 MiB by itself, unless the user has said otherwise.
func TestMemoryLimit(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	limitMemory(envOf("GOMEMLIMIT", "1GiB"))
	if got := debug.SetMemoryLimit(-1); got != before {
		t.Errorf("the user's limit became %d", got)
	}
	limitMemory(noEnv)
	if got := debug.SetMemoryLimit(-1); got != 208<<20 {
		t.Errorf("the limit is %d, want 208 MiB", got)
	}
}

// The heap is collected early, unless the user has said otherwise.
func TestHeapGrowth(t *testing.T) {
	limit := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(limit)
	before := debug.SetGCPercent(100)
	defer debug.SetGCPercent(before)
	limitMemory(envOf("GOGC", "200"))
	if got := debug.SetGCPercent(100); got != 100 {
		t.Errorf("what the user asked for became %d %%", got)
	}
	limitMemory(noEnv)
	if got := debug.SetGCPercent(100); got != heapGrowth {
		t.Errorf("the heap may grow by %d %%, want %d", got, heapGrowth)
	}
}
