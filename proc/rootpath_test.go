package proc

import (
	"slices"
	"strings"
	"testing"
)

func TestServedMounts(t *testing.T) {
	const table = `22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/root rw
23 22 0:21 / /proc rw,nosuid - proc proc rw
24 22 0:22 / /home/a\040b rw - fuse.sshfs a@b:/ rw
25 22 0:23 / /mnt/n\134\012fs ro master:2 - nfs4 host:/x rw,vers=4.2
26 22 0:24 / /net rw - autofs systemd-1 rw
27 22 8:1 / /win rw - fuseblk /dev/sda1 rw
28 22 0:25 / /tmp rw - tmpfs tmpfs rw
broken line
29 22 0:26 - fuse x rw
`
	want := []string{"/home/a b", "/mnt/n\\\nfs", "/net", "/win"}
	if got := servedMounts([]byte(table)); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestUnescapeOctal(t *testing.T) {
	for in, want := range map[string]string{`a\040b`: "a b", `\134`: `\`, `\04`: `\04`, `\089`: `\089`, "": "", `\\040`: `\ `} {
		if got := unescapeOctal([]byte(in)); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

func FuzzServedMounts(f *testing.F) {
	f.Add([]byte("24 22 0:22 / /home/a\\040b rw - fuse.sshfs a@b:/ rw\n"))
	f.Fuzz(func(t *testing.T, table []byte) {
		got := servedMounts(table)
		if len(got) > strings.Count(string(table), "\n")+1 || len(strings.Join(got, "")) > len(table) {
			t.Errorf("%q from %q", got, table)
		}
	})
}
