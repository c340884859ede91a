package api

import (
	"runtime"
	"sync"
	"testing"
	"time"
)

// A value is made once while it is in use, whoever asks, and is gone afterwards.
func TestFleeting(t *testing.T) {
	var f fleeting[[]byte]
	made := 0 // guarded by f.mu
	build := func() *[]byte {
		made++
		b := make([]byte, 1<<20)
		return &b
	}
	first := f.get(build)
	var work sync.WaitGroup
	for range 8 {
		work.Go(func() {
			if f.get(build) != first {
				t.Error("made again while in use")
			}
		})
	}
	work.Wait()
	runtime.KeepAlive(first)
	for end := time.Now().Add(15 * time.Second); f.made.Value() != nil; time.Sleep(time.Millisecond) {
		if runtime.GC(); time.Now().After(end) {
			t.Fatal("still there when nobody uses it")
		}
	}
	if f.get(build); made != 2 {
		t.Errorf("made %d times, want 2", made)
	}

	// A panic reaches who asked, and keeps nobody else out.
	var g fleeting[int]
	func() {
		defer func() { recover() }()
		g.get(func() *int { panic("a mistake") })
	}()
	if v := g.get(func() *int { return new(int) }); v == nil {
		t.Error("no value after a panic")
	}
}
