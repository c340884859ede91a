package proc

import (
	"bytes"
	"strings"
	"testing"
)

func TestParseCgroup(t *testing.T) {
	for _, c := range []struct{ what, text, want string }{
		{"v2", "0::/system.slice/ssh.service\n", "/system.slice/ssh.service"},
		{"v2 root", "0::/\n", "/"},
		{"v1", "4:cpu,cpuacct:/a\n1:name=systemd:/system.slice/cron.service\n", "/system.slice/cron.service"},
		{"v1 without systemd", "4:cpu,cpuacct:/a\n", ""},
		{"v2 in use on a hybrid host", "1:name=systemd:/old\n0::/new\n", "/new"},
		{"v2 unused on a hybrid host", "1:name=systemd:/user.slice\n0::/\n", "/user.slice"},
		{"both root", "1:name=systemd:/\n0::/\n", "/"},
		{"colons in the path", "0::/a:b:c\n", "/a:b:c"},
		{"named without a controller", "3::/x\n", ""},
		{"no newline", "0::/x", "/x"},
		{"outside the cgroup namespace", "0::/../other\n", "/../other"},
		{"nothing", "", ""},
		{"other text", "hello\n::\n0:\n0::\n0::relative\n", ""},
	} {
		got, ok := parseCgroup([]byte(c.text))
		if string(got) != c.want || ok != (c.want != "") {
			t.Errorf("%s: got %q, %v; want %q", c.what, got, ok, c.want)
		}
	}
}

func TestContainerOf(t *testing.T) {
	const id = "3f4e9ab1c2d35f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8"
	const other = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
	for path, want := range map[string]string{
		"/":                                  "",
		"/system.slice/nginx.service":        "nginx.service",
		"/system.slice/nginx.service/worker": "nginx.service",
		"/user.slice/user-1000.slice/session-4.scope":                         "session-4.scope",
		"/user.slice/user-1000.slice/user@1000.service/app.slice/app-x.scope": "app-x.scope",
		"/init.scope":                                  "init.scope",
		"/docker/" + id:                                id[:12],
		"/system.slice/docker-" + id + ".scope":        id[:12],
		"/docker/" + id + "/system.slice/cron.service": id[:12],
		"/docker/" + other + "/docker/" + id:           id[:12],
		"/kubepods/besteffort/pod1b7f0d9e-aaaa-bbbb-cccc-0123456789ab/" + id:                                     id[:12],
		"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1.slice/cri-containerd-" + id + ".scope": id[:12],
		"/kubepods.slice/kubepods-pod1.slice/crio-" + id + ".scope":                                              id[:12],
		"/machine.slice/libpod-" + id + ".scope/container":                                                       id[:12],
		"/machine.slice/libpod-conmon-" + id + ".scope":                                                          "libpod-conmon-" + id + ".scope",
		"/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" + id + ".scope":                       id[:12],
		"/docker/" + strings.ToUpper(id):                                                                         "",
		"/docker/" + id[:63]:                                                                                     "",
		"/x/" + "g" + id[1:]:                                                                                     "",
		"/.service":                                                                                              ".service",
	} {
		if got := containerOf([]byte(path)); got != want {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
	}
}

func TestCgroupNames(t *testing.T) {
	const id = "3f4e9ab1c2d35f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8"
	for path, want := range map[string][2]string{
		"/":                                      {},
		"/system.slice/nginx.service/worker":     {"", "nginx.service"},
		"/docker/" + id:                          {id[:12], ""},
		"/machine.slice/libpod-" + id + ".scope": {id[:12], "libpod-" + id + ".scope"},
		"/docker/" + id + "/system.slice/a.scope": {id[:12], "a.scope"},
	} {
		container, unit := CgroupNames(path)
		if got := [2]string{container, unit}; got != want {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
	}
}

func FuzzParseCgroup(f *testing.F) {
	f.Add([]byte("1:name=systemd:/user.slice\n0::/\n"))
	f.Add([]byte("0::/docker/3f4e9ab1c2d35f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		path, ok := parseCgroup(b)
		if ok != (len(path) > 0) || ok && path[0] != '/' || bytes.IndexByte(path, '\n') >= 0 || !bytes.Contains(b, path) {
			t.Fatalf("path %q, %v", path, ok)
		}
		if name := containerOf(path); len(name) > len(path) || !bytes.Contains(path, []byte(name)) {
			t.Fatalf("container %q of %q", name, path)
		}
	})
}
