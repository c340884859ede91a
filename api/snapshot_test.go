package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"procinsh/proc"
	"procinsh/ptrace"
)

const snapshotPath = "/api/processes/snapshot"

// posted is a request for a snapshot.
func posted(body string, header ...string) *http.Request {
	r := request("POST", snapshotPath, append([]string{"Content-Type", "application/json"}, header...)...)
	r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
	return r
}

// sleeping starts a process that lives as long as the test and returns the body
// that names it.
func sleeping(t *testing.T) (body string, cmd *exec.Cmd) {
	t.Helper()
	cmd = exec.Command("sleep", "300")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	return bodyFor(t, cmd.Process.Pid), cmd
}

func bodyFor(t *testing.T, pid int) string {
	return fmt.Sprintf(`{"pid":%d,"start_time_ticks":%d}`, pid, startTicks(t, pid))
}

// taken is a taker that answers at once.
func taken(_ context.Context, _ *proc.FS, id proc.ID, _ *ptrace.Symbols) (*ptrace.Snapshot, error) {
	return &ptrace.Snapshot{ID: id, At: time.UnixMilli(1), Priority: ptrace.PriorityNormal}, nil
}

func TestSnapshotBody(t *testing.T) {
	s, _ := testServer(t, nil)
	s.take = taken
	good, _ := sleeping(t)
	long := good[:len(good)-1] + `,"more":"` + strings.Repeat("x", maxBodyBytes) + `"}`
	fits := good + strings.Repeat(" ", maxBodyBytes-len(good))
	gone := fmt.Sprintf(`{"pid":%d,"start_time_ticks":1}`, os.Getppid())
	tests := []struct {
		name   string
		r      *http.Request
		status int
		code   string
	}{
		{"good", posted(good), 200, ""},

		{"more fields", posted(good[:len(good)-1] + `,"why":null}`), 200, ""},
		{"as long as may be", posted(fits), 200, ""},
		{"too long", posted(fits + " "), 413, "body_too_large"},
		{"too long in one field", posted(long), 413, "body_too_large"},
		{"empty", posted(""), 400, "invalid_json"},
		{"blank", posted("  "), 400, "invalid_json"},
		{"cut", posted(good[:len(good)-1]), 400, "invalid_json"},
		{"no JSON", posted("pid=1&start_time_ticks=1"), 400, "invalid_json"},
		{"something behind it", posted(good + "x"), 400, "invalid_json"},
		{"two of them", posted(good + good), 400, "invalid_json"},
		{"a list", posted("[" + good + "]"), 422, "invalid_body"},
		{"a number", posted("1"), 422, "invalid_body"},
		{"null", posted("null"), 422, "missing_pid"},
		{"nothing in it", posted("{}"), 422, "missing_pid"},
		{"no ticks", posted(`{"pid":1}`), 422, "missing_start_time_ticks"},
		{"no pid", posted(`{"start_time_ticks":1}`), 422, "missing_pid"},
		{"name in capitals", posted(`{"PID":1,"start_time_ticks":1}`), 422, "missing_pid"},
		{"pid null", posted(`{"pid":null,"start_time_ticks":1}`), 422, "invalid_pid"},
		{"pid text", posted(`{"pid":"1","start_time_ticks":1}`), 422, "invalid_pid"},
		{"pid 0", posted(`{"pid":0,"start_time_ticks":1}`), 422, "invalid_pid"},
		{"pid negative", posted(`{"pid":-1,"start_time_ticks":1}`), 422, "invalid_pid"},
		{"pid a fraction", posted(`{"pid":1.5,"start_time_ticks":1}`), 422, "invalid_pid"},
		{"pid in powers", posted(`{"pid":1e3,"start_time_ticks":1}`), 422, "invalid_pid"},
		{"pid too large", posted(`{"pid":2147483648,"start_time_ticks":1}`), 422, "invalid_pid"},
		{"pid a list", posted(`{"pid":[1],"start_time_ticks":1}`), 422, "invalid_pid"},
		{"ticks 0", posted(`{"pid":1,"start_time_ticks":0}`), 422, "invalid_start_time_ticks"},
		{"ticks negative", posted(`{"pid":1,"start_time_ticks":-1}`), 422, "invalid_start_time_ticks"},
		{"ticks true", posted(`{"pid":1,"start_time_ticks":true}`), 422, "invalid_start_time_ticks"},
		{"ticks too large", posted(`{"pid":1,"start_time_ticks":18446744073709551616}`), 422, "invalid_start_time_ticks"},
		{"another process by now", posted(gone), 410, "process_gone"},
		{"no such process", posted(`{"pid":2147483647,"start_time_ticks":18446744073709551615}`), 410, "process_gone"},
		{"packed", posted(good, "Content-Encoding", "gzip"), 415, "not_json"},
		{"two types", posted(good, "Content-Type", "text/plain"), 415, "not_json"},
		{"itself", posted(bodyFor(t, os.Getpid())), 422, "snapshot_of_self"},
	}
	for _, tt := range tests {
		w := do(s, tt.r)
		checkHeaders(t, w.Header())
		if w.Code != tt.status {
			t.Errorf("%s: %d %s, want %d", tt.name, w.Code, w.Body, tt.status)
		} else if tt.status != 200 && errorOf(t, w).Code != tt.code {
			t.Errorf("%s: another code than %s", tt.name, tt.code)
		}
	}
	for kind, status := range map[string]int{
		"application/json; charset=utf-8": 200, "Application/JSON": 200, "": 415, "text/plain": 415,
		"application/x-www-form-urlencoded": 415, "application/json-seq": 415, "application/json;": 200, "application/json; =": 415,
	} {
		r := posted(good)
		r.Header["Content-Type"] = []string{kind}
		if w := do(s, r); w.Code != status {
			t.Errorf("Content-Type %q: %d %s, want %d", kind, w.Code, w.Body, status)
		}
	}
	// Without an announced length the limit holds too.
	r := posted(fits + " ")
	r.ContentLength = -1
	if w := do(s, r); w.Code != 413 {
		t.Errorf("too long in chunks: %d", w.Code)
	}
	for _, method := range []string{"GET", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS"} {
		w := do(s, request(method, snapshotPath))
		if w.Code != 405 || w.Header().Get("Allow") != "POST" {
			t.Errorf("%s: %d, Allow %q", method, w.Code, w.Header().Get("Allow"))
		}
	}
	if w := do(s, posted(good, "Origin", "http://evil.example")); w.Code != 403 {
		t.Errorf("from another origin: %d", w.Code)
	}
	if w := do(s, posted(good, "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document")); w.Code != 403 {
		t.Errorf("a form of another site: %d", w.Code)
	}
}

// What a body is refused for is in the log, the body is not.
func TestSnapshotBodyIsNotLogged(t *testing.T) {
	s, log := testServer(t, nil)
	do(s, posted(`{"pid": secret}`))
	if text := log.String(); !strings.Contains(text, "invalid_json") || strings.Contains(text, "secret") || strings.Contains(text, "'s'") {
		t.Errorf("the log is %s", text)
	}
}

func TestSnapshotFailures(t *testing.T) {
	s, log := testServer(t, nil)
	good, _ := sleeping(t)
	tests := []struct {
		err    error
		status int
		code   string
	}{
		{ptrace.ErrKernelThread, 422, "kernel_thread"},
		{&ptrace.TracedError{TID: 5, PID: 77, Comm: "gdb"}, 422, "already_traced"},
		{fmt.Errorf("capture: %w", ptrace.ErrUnstable), 422, "unstable"},
		{ptrace.ErrTooMany, 422, "too_many_threads"},
		{ptrace.ErrHeld, 422, "held_in_kernel"},
		{os.ErrPermission, 422, "permission_denied"},
		{proc.ErrGone, 410, "process_gone"},
		{errors.New("a bug"), 500, "internal"},
	}
	for _, tt := range tests {
		s.take = func(context.Context, *proc.FS, proc.ID, *ptrace.Symbols) (*ptrace.Snapshot, error) {
			return nil, tt.err
		}
		w := do(s, posted(good))
		e := errorOf(t, w)
		if w.Code != tt.status || e.Code != tt.code {
			t.Errorf("%v is %d %+v, want %d %s", tt.err, w.Code, e, tt.status, tt.code)
		}
		if tt.code == "already_traced" && (!strings.Contains(e.Error, "77") || !strings.Contains(e.Error, "gdb")) {
			t.Errorf("the tracer is not named: %s", e.Error)
		}
	}
	// A panic gives the turn back.
	s.take = func(context.Context, *proc.FS, proc.ID, *ptrace.Symbols) (*ptrace.Snapshot, error) { panic("broken") }
	if w := do(s, posted(good)); w.Code != 500 || !strings.Contains(log.String(), "broken") {
		t.Errorf("a panic is %d", w.Code)
	}
	s.take = taken
	if w := do(s, posted(good)); w.Code != 200 {
		t.Errorf("after a panic: %d", w.Code)
	}
}

// One runs, sixteen wait in order, the next is refused at once; one that leaves
// makes room.
func TestSnapshotTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newTurns()
		if err := q.enter(t.Context()); err != nil {
			t.Fatal(err)
		}
		left, leave := context.WithCancel(t.Context())
		var order []int
		var mu sync.Mutex
		results := make(chan error, maxWaitingSnapshots)
		for i := range maxWaitingSnapshots {
			ctx := t.Context()
			if i == 3 {
				ctx = left
			}
			go func() {
				err := q.enter(ctx)
				if err == nil {
					mu.Lock()
					order = append(order, i)
					mu.Unlock()
				}
				results <- err
			}()
			synctest.Wait() // it waits now
		}
		began := time.Now()
		if err := q.enter(t.Context()); err != errSnapshotsBusy || time.Since(began) != 0 {
			t.Fatalf("the 17th is told %v after %v, want a refusal at once", err, time.Since(began))
		}
		leave()
		if err := <-results; !errors.Is(err, context.Canceled) {
			t.Fatalf("who left is told %v", err)
		}
		synctest.Wait()
		last := make(chan error)
		go func() { last <- q.enter(t.Context()) }()
		synctest.Wait()
		for range 5 {
			q.leave()
			if err := <-results; err != nil {
				t.Fatalf("a turn that came: %v", err)
			}
		}
		if got := fmt.Sprint(order); got != "[0 1 2 4 5]" {
			t.Errorf("turns came in the order %s", got)
		}
		// The rest waits for 10 s and is refused.
		for range maxWaitingSnapshots - 6 {
			if err := <-results; err != errSnapshotsBusy {
				t.Errorf("who waited too long is told %v", err)
			}
		}
		if err := <-last; err != errSnapshotsBusy || time.Since(began) != snapshotTimeout {
			t.Errorf("who came last is told %v after %v, want a refusal after %v", err, time.Since(began), snapshotTimeout)
		}
		if len(q.waiting) != 0 || len(q.running) != 1 {
			t.Errorf("%d wait and %d run, want none and the one", len(q.waiting), len(q.running))
		}
		q.leave()
	})
	if errSnapshotsBusy.status != 429 || errSnapshotsBusy.retryAfter == 0 {
		t.Errorf("the refusal is %+v", errSnapshotsBusy)
	}
}

// held is a taker that says which process it was asked for and waits.
type held struct {
	began chan int32
	end   chan struct{}
}

func (h held) take(ctx context.Context, fs *proc.FS, id proc.ID, symbols *ptrace.Symbols) (*ptrace.Snapshot, error) {
	h.began <- id.PID
	select {
	case <-h.end:
		return taken(ctx, fs, id, symbols)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(15 * time.Second); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited 15 s for %s", what)
		}
	}
}

// A client that closes its connection leaves the queue, and nothing but snapshots
// waits meanwhile.
func TestSnapshotClientLeaves(t *testing.T) {
	s, _ := testServer(t, nil)
	h := held{make(chan int32, 8), make(chan struct{})}
	s.take = h.take
	l := listenTCP(t)
	serveOn(t, s, l)
	body, cmd := sleeping(t)
	post := func() net.Conn {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", snapshotPath, l.Addr(), len(body), body)
		return c
	}
	first := post()
	if pid := <-h.began; int(pid) != cmd.Process.Pid {
		t.Fatalf("asked for %d", pid)
	}
	second := post()
	until(t, "the second to wait", func() bool { return len(s.turns.waiting) == 1 })
	res, err := http.Get("http://" + l.Addr().String() + "/api/processes/maps?" + identityOf(t, cmd.Process.Pid))
	if err != nil || res.StatusCode != 200 {
		t.Errorf("maps meanwhile: %v %v", res, err)
	} else {
		res.Body.Close()
	}
	second.Close()
	until(t, "the second to leave", func() bool { return len(s.turns.waiting) == 0 })
	// The one that is being taken ends with its client, too.
	first.Close()
	until(t, "the first to end", func() bool { return len(s.turns.running) == 0 })
	select {
	case pid := <-h.began:
		t.Errorf("a snapshot of %d was begun for nobody", pid)
	default:
	}
	close(h.end)
	third := post()
	reply := make([]byte, 12)
	if _, err := io.ReadFull(third, reply); err != nil || string(reply) != "HTTP/1.1 200" {
		t.Errorf("afterwards: %q %v", reply, err)
	}
}

// A target that ends while its snapshot waits is gone when the turn comes.
func TestSnapshotTargetEndsInTheQueue(t *testing.T) {
	s, _ := testServer(t, nil)
	h := held{make(chan int32, 8), make(chan struct{})}
	s.take = h.take
	first, _ := sleeping(t)
	second, cmd := sleeping(t)
	var wg sync.WaitGroup
	wg.Go(func() {
		if w := do(s, posted(first)); w.Code != 200 {
			t.Errorf("the first: %d %s", w.Code, w.Body)
		}
	})
	<-h.began
	wg.Go(func() {
		if w := do(s, posted(second)); w.Code != 410 {
			t.Errorf("the second: %d %s", w.Code, w.Body)
		}
	})
	until(t, "the second to wait", func() bool { return len(s.turns.waiting) == 1 })
	cmd.Process.Kill()
	cmd.Wait()
	close(h.end)
	wg.Wait()
	if len(h.began) != 0 {
		t.Error("a process that was gone was asked for")
	}
}

// Shutdown ends the snapshot under way and those that wait: 503.
func TestSnapshotAtShutdown(t *testing.T) {
	s, _ := testServer(t, nil)
	h := held{make(chan int32, 8), make(chan struct{})}
	s.take = h.take
	body, _ := sleeping(t)
	var wg sync.WaitGroup
	for i := range 2 {
		r := posted(body)
		ctx := cameTo(s.ctx, loopback)
		wg.Go(func() {
			if w := do(s, r.WithContext(ctx)); w.Code != 503 || errorOf(t, w).Code != "stopping" {
				t.Errorf("request %d: %d", i, w.Code)
			}
		})
	}
	<-h.began
	until(t, "the other to wait", func() bool { return len(s.turns.waiting) == 1 })
	s.stop()
	wg.Wait()
}

// A body that does not come costs its own connection only.
func TestSnapshotBodyCut(t *testing.T) {
	s, _ := testServer(t, nil)
	s.take = taken
	r := posted("")
	r.Body, r.ContentLength = io.NopCloser(io.MultiReader(strings.NewReader(`{"pid"`), failing{io.ErrUnexpectedEOF})), 30
	if w := do(s, r); w.Code != 400 || errorOf(t, w).Code != "body_incomplete" {
		t.Errorf("a cut body: %d %s", w.Code, w.Body)
	}
	r.Body = io.NopCloser(failing{os.ErrDeadlineExceeded})
	if w := do(s, r); w.Code != 408 || errorOf(t, w).Code != "body_timeout" {
		t.Errorf("a slow body: %d %s", w.Code, w.Body)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func (r random) frame() ptrace.Frame {
	f := ptrace.Frame{Address: r.u64(), Symbol: r.text(), SymbolOffset: r.u64(), SourceFile: r.text(), Line: r.IntN(3),
		Module: r.text(), ModuleOffset: r.u64(), By: ptrace.Found(r.IntN(4)), Guess: r.yes()}
	return f
}

func (r random) snapshotThread(maps []proc.Mapping) ptrace.Thread {
	t := ptrace.Thread{TID: r.i32(), Name: r.text(), UnwindStop: r.text(), FramesMayBeMissing: r.yes(), Err: r.text()}
	if r.IntN(4) == 0 {
		return t
	}
	t.Registers = many(r, 19, func() ptrace.Register {
		reg := ptrace.Register{Name: "RAX", Value: r.u64(), Kind: ptrace.KindInteger}
		if len(maps) > 0 && r.yes() {
			reg.Kind, reg.Mapping, reg.Offset = ptrace.KindHeap, &maps[r.IntN(len(maps))], r.u64()
		}
		return reg
	})
	if r.yes() {
		t.Call = &ptrace.Call{Number: r.Int64N(400), Name: opt(r, r.text)}
	}
	t.CallStack = many(r, 4, r.frame)
	t.Stack = ptrace.Copy{Address: r.u64(), Bytes: make([]byte, r.IntN(3))}
	t.Disassembly = &ptrace.Disassembly{Address: 16, Bytes: []byte{0x90, 0xc3}, Err: r.text(),
		Instructions: []ptrace.Instruction{{Address: 16, Bytes: []byte{0x90}, Text: "nop"}, {Address: 17, Bytes: []byte{0xc3}, Text: "ret"}}}
	return t
}

// The bytes are those of the contract type.
func TestAppendSnapshot(t *testing.T) {
	for seed := range uint64(200) {
		r := newRandom(seed)
		s := &ptrace.Snapshot{At: r.at(), ID: r.id(), Paused: time.Duration(r.Int64N(3e9)), Maps: many(r, 4, r.mapping),
			Warnings: r.texts(), Passes: r.IntN(16), Priority: ptrace.PriorityFIFO}
		s.Threads = many(r, 4, func() ptrace.Thread { return r.snapshotThread(s.Maps) })
		s.NotStopped = many(r, 3, func() ptrace.NotStopped { return ptrace.NotStopped{TID: r.i32(), Reason: r.text()} })

		want := SnapshotAnswer{CapturedAt: s.At.UnixMilli(), ProcessID: identity(s.ID), PausedMS: milliseconds(s.Paused),
			Threads: []SnapshotThread{}, Maps: wireMappings(s.Maps), Warnings: nonNil(s.Warnings),
			Cost: SnapshotCost{len(s.Threads), s.Passes, "fifo"}, NotStopped: []NotStopped{}}
		for i := range s.Threads {
			want.Threads = append(want.Threads, mappingNames{}.thread(&s.Threads[i]))
		}
		for _, n := range s.NotStopped {
			want.NotStopped = append(want.NotStopped, NotStopped{n.TID, n.Reason})
		}
		same(t, bytes.TrimSuffix(AppendSnapshot(nil, s), []byte("\n")), want)
	}
}

// Each field of the contract from one thread of each kind.
func TestSnapshotThread(t *testing.T) {
	libc := proc.Mapping{Start: 0x1000, End: 0x3000, Permissions: [4]byte{'r', '-', 'x', 'p'}, Path: "/lib/libc.so"}
	heap := proc.Mapping{Start: 0x5000, End: 0x6000, Permissions: [4]byte{'r', 'w', '-', 'p'}}
	a := mappingNames{}.thread(&ptrace.Thread{
		TID: 7, Name: "worker",
		Registers: []ptrace.Register{
			{Name: "RIP", Value: 0x1010, Kind: ptrace.KindLibrary, Mapping: &libc, Offset: 0x10},
			{Name: "RBX", Value: 0x5008, Kind: ptrace.KindAnonymous, Mapping: &heap, Offset: 8},
			{Name: "R15", Value: math.MaxUint64, Kind: ptrace.KindInteger},
		},
		Call:      &ptrace.Call{Number: 999},
		CallStack: []ptrace.Frame{{Address: 0x1010, By: ptrace.ByRegisters}},
		Stack:     ptrace.Copy{Address: 0x7000, Bytes: []byte{1, 0xff}},
		Disassembly: &ptrace.Disassembly{Address: 0x1010, Bytes: []byte{0x90, 0x90},
			Instructions: []ptrace.Instruction{{Address: 0x1010, Bytes: []byte{0x90}, Text: "nop"}, {Address: 0x1011, Bytes: []byte{0x90}, Text: "nop"}}},
	})
	want := `{"tid":7,"name":"worker","registers":[` +
		`{"name":"RIP","value":"0x0000000000001010","decimal":"4112","kind":"shared_library","mapping":"/lib/libc.so r-xp","offset":"0x10"},` +
		`{"name":"RBX","value":"0x0000000000005008","decimal":"20488","kind":"anonymous","mapping":"[anonymous] rw-p","offset":"0x8"},` +
		`{"name":"R15","value":"0xffffffffffffffff","decimal":"18446744073709551615","kind":"integer","mapping":null,"offset":null}],` +
		`"call_stack":[{"address":"0x0000000000001010","symbol":null,"symbol_offset":null,"source_file":null,"line":null,"module":null,"module_offset":null,"unwound_by":"registers","guess":false,"inline_frames":[]}],` +
		`"unwind_stop":null,"frames_may_be_missing":false,"syscall":null,"syscall_number":999,` +
		`"disassembly":{"address":"0x0000000000001010","bytes":"9090","instructions":[{"address":"0x0000000000001010","bytes":"90","text":"nop","current":true},` +
		`{"address":"0x0000000000001011","bytes":"90","text":"nop","current":false}],"error":null},` +
		`"stack_bytes":{"address":"0x0000000000007000","bytes":"01ff"},"error":null}`
	if got := encodingJSON(t, a); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	// Without registers.
	b := mappingNames{}.thread(&ptrace.Thread{TID: 8, Err: "no registers"})
	want = `{"tid":8,"name":"","registers":[],"call_stack":[],"unwind_stop":null,"frames_may_be_missing":false,"syscall":null,"syscall_number":null,` +
		`"disassembly":null,"stack_bytes":null,"error":"no registers"}`
	if got := encodingJSON(t, b); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	// 32-bit code.
	c := mappingNames{}.thread(&ptrace.Thread{TID: 9, Disassembly: &ptrace.Disassembly{Address: 1, Bytes: []byte{0xcc}, Err: "32-bit code is not decoded"}})
	if got := encodingJSON(t, c.Disassembly); got != `{"address":"0x0000000000000001","bytes":"cc","instructions":[],"error":"32-bit code is not decoded"}` {
		t.Errorf("got %s", got)
	}
}

// The whole way with a real snapshot.
func TestSnapshotOfRealProcess(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: stops a process")
	}
	s, log := testServer(t, func(o *Options) { o.Symbols = ptrace.NewSymbols(32 << 20) })
	body, cmd := sleeping(t)
	until(t, "the target to sleep", func() bool {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/wchan", cmd.Process.Pid))
		return err == nil && strings.Contains(string(text), "nanosleep")
	})
	w := do(s, posted(body))
	var a SnapshotAnswer
	dec := json.NewDecoder(w.Body)
	dec.DisallowUnknownFields()
	if err := dec.Decode(&a); err != nil || w.Code != 200 {
		t.Fatalf("%d %v", w.Code, err)
	}
	if len(a.Threads) != 1 || len(a.Threads[0].Registers) != 18 || len(a.Threads[0].CallStack) < 3 || a.Cost.StoppedThreads != 1 || a.Cost.Passes < 1 || a.PausedMS <= 0 || len(a.Maps) < 5 {
		t.Errorf("answer: %+v", a)
	}
	if d := a.Threads[0].Disassembly; d == nil || len(d.Instructions) == 0 || !d.Instructions[0].Current {
		t.Errorf("disassembly: %+v", d)
	}
	if !strings.Contains(log.String(), "msg=snapshot") || !strings.Contains(log.String(), "paused_ms=") {
		t.Errorf("the log has no line about it: %s", log)
	}
}

func FuzzSnapshotRequest(f *testing.F) {
	for _, text := range []string{`{"pid":1,"start_time_ticks":2}`, `{"pid":1e3}`, `null`, `[]`, `{"pid":"1"`, ``, `{"pid":01,"start_time_ticks":1}`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		id, err := readSnapshotRequest(httptest.NewRecorder(), posted(text))
		if err != nil {
			if id != (proc.ID{}) {
				t.Errorf("%q: an error and %+v", text, id)
			}
			if e := statusOf(err); e.status < 400 || e.status >= 500 {
				t.Errorf("%q: status %d", text, e.status)
			}
			return
		}
		var v SnapshotRequest
		if json.Unmarshal([]byte(text), &v) == nil && (id.PID <= 0 || id.StartTicks == 0) {
			t.Errorf("%q gives %+v", text, id)
		}
	})
}
