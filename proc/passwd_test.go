package proc

import (
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestParsePasswd(t *testing.T) {
	got := parsePasswd([]byte("root:x:0:0:root:/root:/bin/bash\ntoor:x:0:0::/:/bin/sh\n# bob:x:5:5::/:\n#bob:x:5:5::/:\n\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n" +
		":x:7:7::/:\nbad\nbad:x:-1:1::/:\nbad:x:+1:1::/:\nbad:x::1::/:\nbad:x:4294967296:1::/:\nlast:x:4294967294:1::/:/x"))
	want := map[uint32]string{0: "root", 65534: "nobody", 4294967294: "last"}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestUsersAreReadAgainWhenTheFileChanged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "passwd")
	write := func(text string, at int64) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, time.Unix(at, 0), time.Unix(at, 0)); err != nil {
			t.Fatal(err)
		}
	}
	u := users{path: path}
	u.refresh()
	if len(u.names) != 0 {
		t.Fatalf("%v without a file", u.names)
	}
	write("a:x:1:1::/:\n", 100)
	u.refresh()
	if u.names[1] != "a" {
		t.Fatalf("names %v", u.names)
	}
	first := u.names
	u.refresh()
	first[2] = "kept" // only the same map has it
	if u.names[2] != "kept" {
		t.Error("the unchanged file was read again")
	}
	write("b:x:1:1::/:\n", 101)
	u.refresh()
	if u.names[1] != "b" {
		t.Errorf("names %v, want the new one", u.names)
	}
	os.Remove(path)
	u.refresh()
	if len(u.names) != 0 {
		t.Errorf("%v after the file went", u.names)
	}
}

func TestUsersOfAFileThatIsTooLong(t *testing.T) {
	path := filepath.Join(t.TempDir(), "passwd")
	last := "cut:x:1000:1::/:\n"
	comment := make([]byte, maxPasswd-len("a:x:1:1::/:\n")-len("\n")-len("cut:x:10"))
	for i := range comment {
		comment[i] = '#'
	}
	if err := os.WriteFile(path, []byte("a:x:1:1::/:\n"+string(comment)+"\n"+last), 0o644); err != nil {
		t.Fatal(err)
	}
	u := users{path: path}
	u.refresh()
	if want := map[uint32]string{1: "a"}; !maps.Equal(u.names, want) {
		t.Errorf("names %v, want %v", u.names, want)
	}
}

func FuzzParsePasswd(f *testing.F) {
	f.Add([]byte("root:x:0:0:root:/root:/bin/bash\n"))
	f.Add([]byte("a:x:1:1"))
	f.Fuzz(func(t *testing.T, b []byte) {
		names := parsePasswd(b)
		size := 0
		for _, name := range names {
			if name == "" {
				t.Fatal("an empty name")
			}
			size += len(name)
		}
		if size > len(b) {
			t.Fatalf("%d bytes of names from %d", size, len(b))
		}
	})
}
