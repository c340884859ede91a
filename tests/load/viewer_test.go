package load

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"
)

// viewer reads one stream as fast as it comes, compressed, as browsers take it.
type viewer struct {
	path  string
	event string // that comes once an interval
}

// run reads until ctx is over, and unpacks the stream when late is to be noted.
func (v viewer) run(ctx context.Context, t *testing.T, url string, late *lateness) {
	r, err := http.NewRequestWithContext(ctx, "GET", url+v.path, nil)
	if err != nil {
		t.Error(err)
		return
	}
	r.Header.Set("Accept-Encoding", "gzip")
	tr := &http.Transport{DisableCompression: true}
	defer tr.CloseIdleConnections()
	res, err := tr.RoundTrip(r)
	// Viewers that have just left may still have their places.
	for end := time.Now().Add(time.Minute); err == nil && res.StatusCode == http.StatusTooManyRequests && time.Now().Before(end); {
		res.Body.Close()
		time.Sleep(200 * time.Millisecond)
		res, err = tr.RoundTrip(r)
	}
	if err != nil {
		if ctx.Err() == nil {
			t.Errorf("%s: %v", v.path, err)
		}
		return
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Errorf("%s: status %d", v.path, res.StatusCode)
		return
	}
	if late == nil {
		err = drain(res.Body)
	} else {
		err = v.follow(res.Body, late)
	}
	if ctx.Err() == nil {
		t.Errorf("%s ended: %v", v.path, err)
	}
}

var buffers = sync.Pool{New: func() any { b := make([]byte, 64<<10); return &b }}

// drain reads to the end.
func drain(r io.Reader) error {
	b := buffers.Get().(*[]byte)
	defer buffers.Put(b)
	for {
		if _, err := r.Read(*b); err != nil {
			return err
		}
	}
}

// follow notes how much more than an interval lies between two events.
func (v viewer) follow(body io.Reader, late *lateness) error {
	unpacked, err := gzip.NewReader(body)
	if err != nil {
		return err
	}
	in := bufio.NewReaderSize(unpacked, 64<<10)
	want := []byte("event: " + v.event + "\n")
	var last time.Time
	begins := true // of a line, which may be longer than the buffer
	for {
		line, err := in.ReadSlice('\n')
		if err != nil && err != bufio.ErrBufferFull {
			return err
		}
		if begins && bytes.Equal(line, want) {
			now := time.Now()
			if !last.IsZero() {
				late.add(now.Sub(last) - interval)
			}
			last = now
		}
		begins = err == nil
	}
}

// lateness is how late events were. Safe for concurrent use.
type lateness struct {
	mu   sync.Mutex
	list []time.Duration
}

func (l *lateness) add(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, max(d, 0))
}

func (l *lateness) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.list)
}

// percentile is how late p in a hundred events are at most; 0 without events.
func (l *lateness) percentile(p int) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.list) == 0 {
		return 0
	}
	list := slices.Sorted(slices.Values(l.list))
	return list[min(len(list)*p/100, len(list)-1)]
}

func (l *lateness) String() string {
	return fmt.Sprintf("median %v, p99 %v, most %v", l.percentile(50), l.percentile(99), l.percentile(100))
}
