package proc

import (
	"bytes"
	"strings"
	"testing"
)

const statusText = "Name:\ta\\nUid:\\t9\nUmask:\t0022\nState:\tS (sleeping)\nTgid:\t42\nNgid:\t0\nPid:\t43\nPPid:\t1\nTracerPid:\t0\n" +
	"Uid:\t1000\t1001\t1002\t1003\nGid:\t5\t6\t7\t4294967295\nFDSize:\t64\nGroups:\t4 24 \nVmRSS:\t      12 kB\nVmSwap:\t       8 kB\n" +
	"Cpus_allowed:\tff\nCpus_allowed_list:\t0-3,7\nvoluntary_ctxt_switches:\t150\nnonvoluntary_ctxt_switches:\t3\n"

func TestParseStatus(t *testing.T) {
	got, ok := parseStatus([]byte(statusText))
	if !ok {
		t.Fatal("not parsed")
	}
	if string(got.affinity) != "0-3,7" {
		t.Errorf("affinity %q", got.affinity)
	}
	if got.tgid != 42 || got.uid != [4]uint32{1000, 1001, 1002, 1003} || got.gid != [4]uint32{5, 6, 7, 1<<32 - 1} {
		t.Errorf("ids %+v", got)
	}
	if got.swap != Some[uint64](8*1024) || got.voluntary != Some[uint64](150) || got.nonvoluntary != Some[uint64](3) {
		t.Errorf("counts %+v", got)
	}
}

func TestParseStatusOfKernelThreadHasNoSwap(t *testing.T) {
	got, ok := parseStatus([]byte(strings.Replace(statusText, "VmSwap:\t       8 kB\n", "", 1)))
	if !ok || got.swap.Known() {
		t.Errorf("swap %+v, %v; want unknown", got.swap, ok)
	}
}

func TestParseStatusRefuses(t *testing.T) {
	for what, edit := range map[string][2]string{
		"no Uid":        {"Uid:\t1000\t1001\t1002\t1003\n", ""},
		"three ids":     {"\t1003", ""},
		"five ids":      {"\t1003", "\t1003\t4"},
		"large id":      {"1003", "4294967296"},
		"no Tgid":       {"Tgid:\t42\n", ""},
		"swap in pages": {"8 kB", "8"},
		"switches":      {"150", "-150"},
	} {
		text := strings.Replace(statusText, edit[0], edit[1], 1)
		if text == statusText {
			t.Fatalf("%s: nothing changed", what)
		}
		if got, ok := parseStatus([]byte(text)); ok || got.affinity != nil || got.tgid != 0 || got.uid != [4]uint32{} {
			t.Errorf("%s: got %+v, %v", what, got, ok)
		}
	}
}

func TestStatusOneValue(t *testing.T) {
	uid, euid, ok := statusUID([]byte(statusText))
	if uid != 1000 || euid != 1001 || !ok {
		t.Errorf("uid %d, euid %d, %v", uid, euid, ok)
	}
	if tgid, ok := statusTGID([]byte(statusText)); tgid != 42 || !ok {
		t.Errorf("tgid %d, %v", tgid, ok)
	}
	// A name cannot pose as a line: its newlines are escaped.
	if uid, _, ok := statusUID([]byte("Name:\tUid:\t0\t0\t0\t0\nUid:\t7\t7\t7\t7\n")); uid != 7 || !ok {
		t.Errorf("uid %d, %v; want 7", uid, ok)
	}
	for _, text := range []string{"", "Name:\tx\n", "Name:\tx\nUid:\t1\n", "Name:\tx\nTgid:\t\n"} {
		if uid, euid, ok := statusUID([]byte(text)); ok || uid != 0 || euid != 0 {
			t.Errorf("statusUID(%q) = %d, %d, %v", text, uid, euid, ok)
		}
		if tgid, ok := statusTGID([]byte(text)); ok {
			t.Errorf("statusTGID(%q) = %d", text, tgid)
		}
	}
}

func FuzzParseStatus(f *testing.F) {
	f.Add([]byte(statusText))
	f.Add([]byte("Tgid:\t1\nUid:\t0 0 0 0\nGid:\t0 0 0 0\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, ok := parseStatus(b)
		if !ok {
			if got.tgid != 0 || got.affinity != nil || got.uid != [4]uint32{} || got.swap.Known() || got.voluntary.Known() {
				t.Fatalf("refused with %+v", got)
			}
			return
		}
		if got.tgid <= 0 || !bytes.Contains(b, got.affinity) {
			t.Fatalf("got %+v", got)
		}
		if uid, euid, ok := statusUID(append([]byte("Name:\tx\n"), b...)); ok && (uid != got.uid[0] || euid != got.uid[1]) && bytes.Count(b, []byte("Uid")) == 1 {
			t.Fatalf("statusUID gives %d and %d, parseStatus %v", uid, euid, got.uid)
		}
	})
}
