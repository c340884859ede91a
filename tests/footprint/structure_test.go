package footprint

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"procinsh/tests/server"
)

const (
	crowd         = 5000 // processes
	crowdFDs      = 20   // descriptors of each, its standard ones and sockets included
	maxStructure  = 2 << 20
	maxDifference = 20 << 10
	differences   = 8 // of readings that were not cut
)

// wire counts what comes from the network. It gives single bytes, so that the
// decompressor takes no more than it needs.
type wire struct {
	in *bufio.Reader
	n  int
}

func (w *wire) Read(p []byte) (int, error) {
	n, err := w.in.Read(p)
	w.n += n
	return n, err
}

func (w *wire) ReadByte() (byte, error) {
	b, err := w.in.ReadByte()
	if err == nil {
		w.n++
	}
	return b, err
}

type identity struct {
	PID int `json:"pid"`
}

type node struct {
	Identity identity `json:"identity"`
}

// structure is a topology or topology_delta, as far as it is looked at.
type structure struct {
	Nodes        []node            `json:"nodes"`
	Edges        []json.RawMessage `json:"edges"`
	NodesChanged []node            `json:"nodes_changed"`
	MapsChanged  []node            `json:"maps_changed"`
	NodesRemoved []identity        `json:"nodes_removed"`
	EdgesRemoved []string          `json:"edges_removed"`
	EdgesChanged []json.RawMessage `json:"edges_changed"`
	Warnings     []string          `json:"warnings"`
	InspectedFDs int               `json:"inspected_fds"`
}

// of counts what changed of these processes themselves. Their connections are more
// than are shown, and where the list ends depends on those of others.
func (x *structure) of(idle map[int]bool) int {
	n := 0
	for _, c := range slices.Concat(x.NodesChanged, x.MapsChanged) {
		if idle[c.Identity.PID] {
			n++
		}
	}
	return n
}

// A host of 5,000 processes with 100,000 descriptors that do nothing: the structure
// is at most 2 MiB on the wire, and what changes of it at most 20 KiB. Other processes
// of the host do change, so the smallest difference is judged; the idle ones do not.
func TestStructureOfAQuietHost(t *testing.T) {
	if os.Getenv("PROCINSH_SOAK") == "" {
		t.Skip("5,000 processes: in the long form alone, PROCINSH_SOAK=1")
	}
	idle := populate(t)
	exe, err := server.Build(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s, err := server.Start(exe)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	whole, sizes, wasCut := 0, []int(nil), false
	err = events(ctx, s.URL+"/api/system/events?delta=1&maps=summary", func(event string, data []byte, size int) bool {
		if !strings.HasPrefix(event, "topology") {
			return true
		}
		var x structure
		if err := json.Unmarshal(data, &x); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d bytes on the wire, %d of text; %d nodes, %d edges; changed: %d nodes, %d maps, %d edges; removed: %d nodes, %d edges; %d descriptors; %q",
			event, size, len(data), len(x.Nodes), len(x.Edges), len(x.NodesChanged), len(x.MapsChanged), len(x.EdgesChanged),
			len(x.NodesRemoved), len(x.EdgesRemoved), x.InspectedFDs, x.Warnings)
		// On a host that is too busy to read all in 4 s, what was left out goes and comes back.
		cut := slices.ContainsFunc(x.Warnings, func(w string) bool { return strings.Contains(w, "was reached") })
		judged := !cut && !wasCut
		wasCut = cut
		switch {
		case whole > 0:
			if n := x.of(idle); n > 0 && len(sizes) > 0 { // the first may have the first CPU times
				t.Errorf("%d changes of processes that do nothing", n)
			}
			if judged {
				sizes = append(sizes, size)
			}
		case len(x.Nodes) >= crowd, len(x.NodesChanged) >= crowd: // since the empty one at the start
			whole = size
		}
		return len(sizes) < differences
	})
	if err != nil {
		t.Fatalf("after %d differences: %v", len(sizes), err)
	}
	if whole > maxStructure {
		t.Errorf("the structure is %d bytes, want at most %d", whole, maxStructure)
	}
	if least := slices.Min(sizes); least > maxDifference {
		t.Errorf("the smallest of the differences, %v, is %d bytes, want at most %d", sizes, least, maxDifference)
	}
}

// events reads a compressed stream and calls each with an event, and its size as it
// came, until that returns false.
func events(ctx context.Context, url string, each func(event string, data []byte, size int) bool) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept-Encoding", "gzip")
	r, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	if encoding := r.Header.Get("Content-Encoding"); r.StatusCode != http.StatusOK || encoding != "gzip" {
		return fmt.Errorf("status %d, Content-Encoding %q", r.StatusCode, encoding)
	}
	w := &wire{in: bufio.NewReader(r.Body)}
	unpacked, err := gzip.NewReader(w)
	if err != nil {
		return err
	}
	event, from := "", w.n
	var line []byte
	for {
		if line, err = readLine(unpacked, line[:0]); err != nil {
			return err
		}
		if name, ok := bytes.CutPrefix(line, []byte("event: ")); ok {
			event = string(name)
		} else if data, ok := bytes.CutPrefix(line, []byte("data: ")); ok && !each(event, data, w.n-from) {
			return nil
		} else if len(line) == 0 {
			from = w.n
		}
	}
}

func readLine(from io.Reader, to []byte) ([]byte, error) {
	var b [1]byte
	for {
		if _, err := io.ReadFull(from, b[:]); err != nil {
			return to, err
		}
		if b[0] == '\n' {
			return to, nil
		}
		to = append(to, b[0])
	}
}

// populate starts the idle processes and returns their numbers.
func populate(t *testing.T) map[int]bool {
	t.Helper()
	exe := filepath.Join(t.TempDir(), "fixture")
	if out, err := exec.Command("gcc", "-O2", "-pthread", "-o", exe, "../bench/c/fixture.c").CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	cmd := exec.Command(exe, "fds", fmt.Sprint(crowdFDs), fmt.Sprint(crowd))
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(cmd.Process.Signal(syscall.SIGTERM), cmd.Wait()); err != nil {
			t.Errorf("end the idle processes: %v", err)
		}
	})
	idle := map[int]bool{}
	for in := bufio.NewReader(out); ; {
		line, err := in.ReadString('\n')
		if err != nil {
			t.Fatalf("the idle processes: %v", err)
		}
		if strings.HasPrefix(line, "ready ") {
			break
		}
		for _, w := range strings.Fields(line)[1:] {
			var pid int
			if _, err := fmt.Sscan(w, &pid); err != nil {
				t.Fatal(err)
			}
			idle[pid] = true
		}
	}
	if len(idle) != crowd {
		t.Fatalf("%d idle processes, want %d", len(idle), crowd)
	}
	return idle
}
