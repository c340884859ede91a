package e2e

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"procinsh/api"
)

// Who holds a port, a file and a socket is told by a server in its sandbox, about
// this process; the paths are ones that look like something else.
func TestHolders(t *testing.T) {
	s := start(t, options{})
	me := int32(os.Getpid())
	ask := func(query string) (mine []api.Holder) {
		t.Helper()
		a := s.get("/api/processes/holders?" + query)
		checkHeaders(t, a)
		var h api.HoldersAnswer
		a.decode(t, &h)
		if h.CapturedAt == 0 || h.Source != "text" {
			t.Errorf("%s: %+v", query, h)
		}
		for _, x := range h.Holders {
			if x.ProcessID.PID == me {
				mine = append(mine, x)
			}
		}
		return mine
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	states := map[string]int{}
	for _, x := range ask("port=" + port) {
		if x.State == nil || x.Local == nil || *x.Local != l.Addr().String() || x.FD == nil || x.NetworkNamespace == nil || x.Relation != "same_object" {
			t.Errorf("port: %+v", x)
			continue
		}
		if states[*x.State]++; *x.State == "ESTABLISHED" && (x.Remote == nil || *x.Remote != client.LocalAddr().String()) {
			t.Errorf("connection: %+v", x)
		}
	}
	if len(states) != 2 || states["LISTEN"] != 1 || states["ESTABLISHED"] != 1 {
		t.Errorf("port: %v", states)
	}
	raw, err := client.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var st syscall.Stat_t
	if err := raw.Control(func(fd uintptr) { err = syscall.Fstat(int(fd), &st) }); err != nil {
		t.Fatal(err)
	}
	if h := ask("socket=" + strconv.FormatUint(st.Ino, 10)); len(h) != 1 || h[0].Protocol == nil || *h[0].Protocol != "TCP" || *h[0].Remote != l.Addr().String() {
		t.Errorf("socket: %+v", h)
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a b", "line\nbreak", "\"quo\\te\"&port=1#%00", "x (deleted)"} {
		path := filepath.Join(dir, name)
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for _, gone := range []bool{false, true} {
			want := path
			if gone {
				os.Remove(path)
				want += " (deleted)"
			}
			h := ask("path=" + url.QueryEscape(path))
			if len(h) != 1 || h[0].Path == nil || *h[0].Path != want || h[0].Deleted == nil || *h[0].Deleted != gone || h[0].Access == nil ||
				*h[0].Access != "read/write" || h[0].FD == nil || *h[0].FD != int32(f.Fd()) || h[0].Protocol != nil {
				t.Errorf("%q, gone %v: %s", name, gone, fmt.Sprintf("%+v", h))
			}
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	relations := map[string]bool{}
	for _, x := range ask("path=" + url.QueryEscape(self)) {
		relations[x.Relation] = x.FD == nil
	}
	if !relations["executable"] || !relations["mapping"] {
		t.Errorf("executable: %v", relations)
	}
}
