package proc

import (
	"bytes"
	"strings"
)

// parseCgroup returns the path of /proc/PID/cgroup that says where a process
// belongs: that of the v2 hierarchy, else the systemd v1 hierarchy.
//
// On a hybrid host the v2 hierarchy may be mounted and unused: every process is
// in its root, while systemd keeps units in v1. So a v2 path "/" gives way to a
// systemd path that is longer.
func parseCgroup(b []byte) (path []byte, ok bool) {
	var v2, systemd []byte
	for len(b) > 0 {
		var line []byte
		line, b = cutLine(b)
		number, rest, ok1 := bytes.Cut(line, []byte(":"))
		controllers, path, ok2 := bytes.Cut(rest, []byte(":"))
		if !ok1 || !ok2 || len(path) == 0 || path[0] != '/' {
			continue
		}
		switch {
		case len(controllers) == 0 && string(number) == "0":
			v2 = path
		case string(controllers) == "name=systemd":
			systemd = path
		}
	}
	if v2 == nil || len(v2) == 1 && len(systemd) > 1 {
		return systemd, systemd != nil
	}
	return v2, true
}

const (
	containerID    = 64 // hex digits of an id in a path
	containerShort = 12 // hex digits people know it by
)

// containerOf returns the short id of the container that a cgroup path lies in,
// else the name of its systemd unit, else "".
func containerOf(path []byte) string {
	container, unit := CgroupNames(string(path))
	if container != "" {
		return container
	}
	return unit
}

// CgroupNames returns what a cgroup path, as Details has it, lies in: the short id of
// a container and the name of a systemd unit (a service or a scope), each "" outside of
// one.
//
// Docker, containerd, CRI-O and podman name the cgroup of a container by 64 hex
// digits, alone ("/docker/ID", "/kubepods/pod…/ID") or as a scope with a prefix
// ("docker-ID.scope", "cri-containerd-ID.scope", "crio-ID.scope",
// "libpod-ID.scope"). The innermost counts. The monitor that podman and CRI-O put
// beside a container ("libpod-conmon-ID.scope") is not in it: it has its unit.
func CgroupNames(path string) (container, unit string) {
	for len(path) > 0 {
		slash := strings.LastIndexByte(path, '/')
		part := path[slash+1:]
		path = path[:max(slash, 0)]
		if container == "" {
			container = containerPart(part)
		}
		if unit == "" && (strings.HasSuffix(part, ".service") || strings.HasSuffix(part, ".scope")) {
			unit = part
		}
	}
	return container, unit
}

// containerPart returns the short id that one name of a path holds, "" without.
func containerPart(part string) string {
	part = strings.TrimSuffix(part, ".scope")
	if len(part) < containerID {
		return ""
	}
	id, prefix := part[len(part)-containerID:], part[:len(part)-containerID]
	for _, c := range []byte(id) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return ""
		}
	}
	switch prefix {
	case "", "docker-", "cri-containerd-", "crio-", "libpod-":
		return id[:containerShort]
	}
	return ""
}
