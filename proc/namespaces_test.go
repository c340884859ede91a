package proc

import (
	"strings"
	"syscall"
	"testing"
)

func TestParseNamespace(t *testing.T) {
	for text, want := range map[string]uint64{"net:[4026531840]": 4026531840, "pid:[1]": 1} {
		if got, ok := parseNamespace(text); !ok || got != want {
			t.Errorf("%q: got %d, %v", text, got, ok)
		}
	}
	for _, text := range []string{"", "net", "net:", "net:[]", "net:[1", "net:1]", ":[1]", "net:[-1]", "net:[x]", "net:[18446744073709551616]"} {
		if got, ok := parseNamespace(text); ok {
			t.Errorf("%q: got %d", text, got)
		}
	}
}

// A process in namespaces of its own, PID 1 of one: everything about it uses the
// numbers of the caller, but for the list of its PIDs.
func TestNamespacesOfOwnPIDNamespace(t *testing.T) {
	needRoot(t)
	tg := startTarget(t, &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWUTS}, "idle")
	p := openLive(t, tg.pid())
	c, err := p.ReadContext()
	if err != nil {
		t.Fatal(err)
	}
	if len(c.NSPIDs) < 2 || c.NSPIDs[0] != tg.pid() || c.NSPIDs[len(c.NSPIDs)-1] != 1 {
		t.Errorf("PIDs %v, want %d to 1", c.NSPIDs, tg.pid())
	}
	for kind, own := range map[string]bool{"pid": false, "uts": false, "net": true, "mnt": true, "user": true} {
		ns, ok := c.Namespaces[kind]
		if !ok || ns.Own != Some(own) || ns.Inode == 0 {
			t.Errorf("%s: %+v, want own %v", kind, ns, own)
		}
	}
	s, err := p.ReadSignals()
	if err != nil || s.Threads[0].TID != tg.pid() {
		t.Errorf("signals: %+v, %v", s, err)
	}
	if env, _, err := p.ReadEnvironment(); err != nil || len(env) == 0 {
		t.Errorf("environment: %d entries, %v", len(env), err)
	}
	if maps, err := p.ReadMaps(nil); err != nil || len(maps) == 0 {
		t.Errorf("maps: %d, %v", len(maps), err)
	}
	for _, w := range c.Warnings {
		if !strings.HasPrefix(w, "security_label:") {
			t.Errorf("warning %q", w)
		}
	}
}
