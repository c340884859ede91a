package sensors

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// kinds of objects that bpf(2) lists: enum bpf_cmd of include/uapi/linux/bpf.h.
type kind struct {
	name, field string // field is the line of fdinfo
	next        int
}

var kinds = []kind{
	{"program", "prog_id:", 11}, // BPF_PROG_GET_NEXT_ID, 4.13
	{"map", "map_id:", 12},      // BPF_MAP_GET_NEXT_ID, 4.13
	{"link", "link_id:", 31},    // BPF_LINK_GET_NEXT_ID, 5.8
}

// held is a set of kernel objects: kind and ID.
type held map[string]bool

// listed asks the kernel for all BPF objects there are, whoever has them.
func listed(t *testing.T) held {
	t.Helper()
	all := held{}
	for _, k := range kinds {
		var attr struct{ start, next, flags uint32 }
		for {
			_, _, errno := unix.Syscall(unix.SYS_BPF, uintptr(k.next), uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
			if errno == unix.ENOENT {
				break
			}
			if errno != 0 {
				t.Fatalf("list every %s: %v", k.name, errno)
			}
			all[fmt.Sprintf("%s %d", k.name, attr.next)] = true
			attr.start = attr.next
		}
	}
	return all
}

// owned returns the BPF objects that a process has descriptors of. Maps that only
// a program holds are found by what appeared with it.
func owned(t *testing.T, pid int) held {
	t.Helper()
	all := held{}
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/fdinfo/*", pid))
	if err != nil || len(files) == 0 {
		t.Fatalf("no descriptors of %d: %v", pid, err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(b)) {
			for _, k := range kinds {
				if rest, ok := strings.CutPrefix(line, k.field); ok {
					n, err := strconv.ParseUint(strings.TrimSpace(rest), 10, 32)
					if err != nil {
						t.Fatalf("%s: %q", f, line)
					}
					all[fmt.Sprintf("%s %d", k.name, n)] = true
				}
			}
		}
	}
	return all
}

func (h held) without(other held) []string {
	var left []string
	for name := range maps.Keys(h) {
		if !other[name] {
			left = append(left, name)
		}
	}
	slices.Sort(left)
	return left
}

// After the last viewer nothing is left in the kernel: not what the server had,
// and nothing else that came with it.
func TestNothingLeft(t *testing.T) {
	own(t)
	for round := range 2 {
		quiet := func() error {
			if left := owned(t, srv.PID); len(left) > 0 {
				return fmt.Errorf("nobody watches, and the server holds %v", left.without(nil))
			}
			return nil
		}
		w := &windows{t: t}
		if err := w.await(patience, quiet); err != nil {
			t.Fatal(err)
		}
		before := listed(t)
		var viewers []*windows
		for range 3 {
			viewers = append(viewers, watch(t, srv))
		}
		for _, v := range viewers {
			v.observing()
		}
		during, mine := listed(t), owned(t, srv.PID)
		if missing := mine.without(during); len(missing) > 0 {
			t.Fatalf("the server holds %v, which the kernel does not list", missing)
		}
		for _, k := range kinds {
			if !slices.ContainsFunc(slices.Collect(maps.Keys(mine)), func(s string) bool { return strings.HasPrefix(s, k.name+" ") }) && (k.name != "link" || hasLinks(during)) {
				t.Errorf("three viewers, and the server has no BPF %s", k.name)
			}
		}
		viewers[0].stop()
		viewers[1].more(2)
		if gone := mine.without(owned(t, srv.PID)); len(gone) > 0 {
			t.Errorf("with one viewer less the server let go of %v", gone)
		}
		viewers[1].stop()
		viewers[2].stop()
		if err := w.await(patience, func() error {
			now := listed(t)
			for name := range mine {
				if now[name] {
					return fmt.Errorf("the last viewer is gone, and the kernel still has %s", name)
				}
			}
			// What others made at the same time is not for us to judge, but it has a holder.
			for _, name := range now.without(before) {
				if during[name] && !heldByOthers(t, name) {
					return fmt.Errorf("%s came with the sensors and stays, and no process has it", name)
				}
			}
			return quiet()
		}); err != nil {
			t.Fatal(err)
		}
		t.Logf("round %d: %d objects came and went", round+1, len(mine))
	}
}

func hasLinks(all held) bool {
	for name := range all {
		if strings.HasPrefix(name, "link ") {
			return true
		}
	}
	return false
}

func heldByOthers(t *testing.T, name string) bool {
	t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	which, id, _ := strings.Cut(name, " ")
	field := kinds[slices.IndexFunc(kinds, func(k kind) bool { return k.name == which })].field
	for _, d := range dirs {
		files, _ := filepath.Glob(d + "/fdinfo/*")
		for _, f := range files {
			b, _ := os.ReadFile(f)
			for line := range strings.Lines(string(b)) {
				if rest, ok := strings.CutPrefix(line, field); ok && strings.TrimSpace(rest) == id {
					return true
				}
			}
		}
	}
	return false
}
