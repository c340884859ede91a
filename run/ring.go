package run

import (
	"sync"
	"time"
	"unicode/utf8"
)

// Stream tells where a piece of output came from.
type Stream string

const (
	Stdout   Stream = "stdout"
	Stderr   Stream = "stderr"
	Terminal Stream = "terminal" // a PTY merges both
)

// Sizes of the output that is kept of one run, in bytes.
const (
	minOutput     = 4 << 10
	defaultOutput = 1 << 20
	maxOutput     = 16 << 20
	// maxMarks is how many changes between the streams one ring remembers; the oldest
	// bytes fall out with the oldest mark.
	maxMarks = 65_536
)

// Chunk is a piece of output of one stream.
type Chunk struct {
	Stream Stream `json:"stream"`
	From   int64  `json:"from"` // offset of its first byte
	Data   []byte `json:"data"`
}

// mark is where a stream begins to write.
type mark struct {
	at     int64
	stream Stream
}

// ring keeps the newest bytes of a run's output, both streams in the order of their
// arrival. Offsets are absolute: byte 0 is the first that the run wrote. Reading takes
// nothing away, so two readers never steal from each other. Safe for concurrent use.
type ring struct {
	mu    sync.Mutex
	buf   []byte // byte i of the output stands at i % max; shorter until it is full
	max   int64
	first int64 // oldest byte that is kept
	next  int64 // one past the newest
	marks []mark
	last  time.Time // of the last byte
	ended bool
	wake  chan struct{} // closed and replaced by each change
}

func newRing(max int) *ring {
	return &ring{max: int64(max), last: time.Now(), wake: make(chan struct{})}
}

// write appends what a stream said. Callers hand over whole UTF-8 sequences.
func (r *ring) write(s Stream, b []byte) {
	if len(b) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.marks); n == 0 || r.marks[n-1].stream != s {
		r.marks = append(r.marks, mark{r.next, s})
	}
	r.last = time.Now()
	for len(b) > 0 {
		at := r.next % r.max
		var n int
		if at == int64(len(r.buf)) && at < r.max {
			n = int(min(int64(len(b)), r.max-at))
			r.buf = append(r.buf, b[:n]...)
		} else {
			n = copy(r.buf[at:], b)
		}
		b = b[n:]
		r.next += int64(n)
	}
	r.first = max(r.first, r.next-r.max)
	if len(r.marks) > maxMarks {
		r.first = max(r.first, r.marks[len(r.marks)-maxMarks].at)
	}
	drop := 0
	for drop+1 < len(r.marks) && r.marks[drop+1].at <= r.first {
		drop++
	}
	if drop > 0 && drop*2 >= len(r.marks) {
		r.marks = append([]mark(nil), r.marks[drop:]...)
	} else {
		r.marks = r.marks[drop:]
	}
	r.changed()
}

func (r *ring) changed() {
	close(r.wake)
	r.wake = make(chan struct{})
}

// end says that nothing will be written any more.
func (r *ring) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ended {
		r.ended = true
		r.changed()
	}
}

// release gives the bytes back; their count stays known.
func (r *ring) release() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.buf, r.marks, r.first = nil, nil, r.next
}

// Extent is how much was written and what of it is kept.
type Extent struct {
	Bytes   int64 `json:"bytes"`   // written so far
	Dropped int64 `json:"dropped"` // fell out, of those
	First   int64 `json:"first"`   // offset of the oldest byte kept
	Next    int64 `json:"next"`    // offset of the next byte
}

func (r *ring) extent() Extent {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Extent{Bytes: r.next, Dropped: r.first, First: r.first, Next: r.next}
}

// held is the memory the ring takes.
func (r *ring) held() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return int64(cap(r.buf))
}

// silence is how long nothing came.
func (r *ring) silence() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Since(r.last)
}

// Output is a part of what a run wrote.
type Output struct {
	From    int64   `json:"from"`    // offset of the first byte of Chunks
	Next    int64   `json:"next"`    // where to read on
	Dropped int64   `json:"dropped"` // bytes asked for that had fallen out
	EOF     bool    `json:"eof"`     // nothing more will come after Next
	Chunks  []Chunk `json:"chunks"`
}

// read returns up to limit bytes from since on, of one stream or, with "", of all. A
// UTF-8 sequence is never cut. wake is closed when there may be more.
func (r *ring) read(since int64, limit int, only Stream) (o Output, wake <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	wake = r.wake
	o.From = min(max(since, 0), r.next)
	if o.From < r.first {
		o.Dropped = r.first - o.From
		o.From = r.first
		// The oldest bytes may be the rest of a sequence that was cut by the ring.
		for i := 0; i < utf8.UTFMax-1 && o.From < r.next && !utf8.RuneStart(r.at(o.From)); i++ {
			o.From++
			o.Dropped++
		}
	}
	o.Next = min(o.From+int64(limit), r.next)
	if o.Next < r.next {
		o.Next = r.whole(o.From, o.Next)
	}
	for i, m := range r.marks {
		end := r.next
		if i+1 < len(r.marks) {
			end = r.marks[i+1].at
		}
		from, to := max(m.at, o.From), min(end, o.Next)
		if from < to && (only == "" || only == m.stream) {
			o.Chunks = append(o.Chunks, Chunk{m.stream, from, r.copy(from, to)})
		}
	}
	o.EOF = r.ended && o.Next == r.next
	return o, wake
}

// whole moves an end between from and to back to where a sequence begins; with less
// room than one sequence it moves on, so that a reader always gets forward.
func (r *ring) whole(from, end int64) int64 {
	for at := end; at > from && at > end-utf8.UTFMax; at-- {
		if utf8.RuneStart(r.at(at)) {
			return at
		}
	}
	at := end
	for at < r.next && at < end+utf8.UTFMax && !utf8.RuneStart(r.at(at)) {
		at++
	}
	return at
}

func (r *ring) at(i int64) byte { return r.buf[i%r.max] }

func (r *ring) copy(from, to int64) []byte {
	b := make([]byte, 0, to-from)
	for from < to {
		at := from % r.max
		n := min(to-from, int64(len(r.buf))-at)
		b = append(b, r.buf[at:at+n]...)
		from += n
	}
	return b
}

// cutRune returns how many bytes at the end of b begin a UTF-8 sequence that is not
// whole yet.
func cutRune(b []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		if c := b[len(b)-n]; utf8.RuneStart(c) {
			if c >= utf8.RuneSelf && !utf8.FullRune(b[len(b)-n:]) {
				return n
			}
			return 0
		}
	}
	return 0
}
