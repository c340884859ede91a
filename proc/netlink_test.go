package proc

import (
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func farDeadline() time.Time { return time.Now().Add(10 * time.Second) }

// message makes a netlink message, padded.
func message(kind, flags uint16, seq uint32, payload ...byte) []byte {
	b := binary.NativeEndian.AppendUint32(nil, uint32(nlHeader+len(payload)))
	b = binary.NativeEndian.AppendUint16(b, kind)
	b = binary.NativeEndian.AppendUint16(b, flags)
	b = binary.NativeEndian.AppendUint32(b, seq)
	b = binary.NativeEndian.AppendUint32(b, 0)
	b = append(b, payload...)
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	return b
}

func int32Bytes(v int32) []byte { return binary.NativeEndian.AppendUint32(nil, uint32(v)) }

func join(parts ...[]byte) []byte {
	var all []byte
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

func TestEachMessage(t *testing.T) {
	row := func(seq uint32, text string) []byte {
		return message(unix.SOCK_DIAG_BY_FAMILY, unix.NLM_F_MULTI, seq, []byte(text)...)
	}
	done := message(unix.NLMSG_DONE, unix.NLM_F_MULTI, 7, int32Bytes(0)...)
	for _, c := range []struct {
		name              string
		bytes             []byte
		rows              string
		done, interrupted bool
		err               error
	}{
		{"rows and end", join(row(7, "ab"), row(7, "cde"), done), "ab|cde|", true, false, nil},
		{"to be continued", row(7, "ab"), "ab|", false, false, nil},
		{"of an earlier request", join(row(6, "x"), row(7, "ab"), message(unix.NLMSG_DONE, 0, 6), done), "ab|", true, false, nil},
		{"interrupted", join(row(7, "ab"), message(unix.NLMSG_DONE, unix.NLM_F_DUMP_INTR, 7, int32Bytes(0)...)), "ab|", true, true, nil},
		{"refused", message(unix.NLMSG_ERROR, 0, 7, int32Bytes(-int32(unix.ENOENT))...), "", true, false, unix.ENOENT},
		{"refused at the end", message(unix.NLMSG_DONE, 0, 7, int32Bytes(-int32(unix.EINVAL))...), "", true, false, unix.EINVAL},
		{"acknowledged", message(unix.NLMSG_ERROR, 0, 7, int32Bytes(0)...), "", true, false, nil},
		{"noop", join(message(unix.NLMSG_NOOP, 0, 7), done), "", true, false, nil},
		{"nothing", nil, "", false, false, nil},
		{"half a header", make([]byte, nlHeader-1), "", false, false, nil},
		{"too short", message(unix.NLMSG_ERROR, 0, 7, 1, 2), "", false, false, errBadNetlink},
		{"length 0", make([]byte, nlHeader), "", false, false, errBadNetlink},
		{"length past the end", message(unix.NLMSG_DONE, 0, 7, 1, 2, 3, 4)[:nlHeader+2], "", false, false, errBadNetlink},
	} {
		rows := ""
		done, interrupted, err := eachMessage(c.bytes, 7, func(b []byte) bool { rows += string(b) + "|"; return true })
		if rows != c.rows || done != c.done || interrupted != c.interrupted || !errors.Is(err, c.err) {
			t.Errorf("%s: got %q, %v, %v, %v", c.name, rows, done, interrupted, err)
		}
	}
	n := 0
	eachMessage(join(row(7, "a"), row(7, "b")), 7, func([]byte) bool { n++; return false })
	if n != 1 {
		t.Errorf("went on after false: %d rows", n)
	}
}

func TestEachAttribute(t *testing.T) {
	attr := func(kind uint16, v string) []byte {
		b := binary.NativeEndian.AppendUint16(nil, uint16(4+len(v)))
		b = append(binary.NativeEndian.AppendUint16(b, kind), v...)
		for len(b)%4 != 0 {
			b = append(b, 0)
		}
		return b
	}
	got := ""
	eachAttribute(join(attr(0, "abc"), attr(2, "d"), []byte{3, 0, 0, 0}), func(kind uint16, v []byte) {
		got += string(rune('0'+kind)) + string(v) + "|"
	})
	if got != "0abc|2d|" {
		t.Errorf("got %q", got)
	}
}

// The kernel answers a table that it does not have with ENOENT, at once.
func TestDumpUnknownFamily(t *testing.T) {
	c, err := openDiag(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	req := make([]byte, nlHeader+unixDiagReqSize)
	req[nlHeader] = unix.AF_APPLETALK
	err = c.dump(req, farDeadline(), func([]byte) bool { t.Error("a row"); return true })
	if !noDiag(err) {
		t.Errorf("got %v", err)
	}
	// The socket is good for another request, also after one that was left early with
	// more rows than one reading holds.
	const pairs = 4000
	fds := make([]int, 0, 2*pairs)
	defer func() {
		for _, fd := range fds {
			unix.Close(fd)
		}
	}()
	for range pairs {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		fds = append(fds, pair[0], pair[1])
	}
	for range 2 {
		rows := 0
		if err := c.dump(unixDump(udiagShowPeer), farDeadline(), func([]byte) bool { rows++; return rows < 2 }); err != nil || rows != 2 {
			t.Errorf("after a refusal: %d rows, %v", rows, err)
		}
	}
}

func TestDumpDeadline(t *testing.T) {
	c, err := openDiag(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	err = c.dump(unixDump(0), time.Now().Add(-time.Second), func([]byte) bool { t.Error("a row"); return true })
	if !errors.Is(err, unix.ETIMEDOUT) {
		t.Errorf("got %v", err)
	}
}

func FuzzNetlink(f *testing.F) {
	f.Add(join(message(unix.SOCK_DIAG_BY_FAMILY, 0, 7, 1, 2, 3), message(unix.NLMSG_DONE, 0, 7, 0, 0, 0, 0)))
	f.Add(message(unix.NLMSG_ERROR, 0, 7, 0, 0, 0, 0x80))
	f.Fuzz(func(t *testing.T, b []byte) {
		total := 0
		_, _, err := eachMessage(b, 7, func(p []byte) bool { total += nlHeader + len(p); return true })
		if err != nil && err.Error() == "" {
			t.Error("an error without a text")
		}
		if total > len(b) {
			t.Errorf("%d bytes of rows in %d", total, len(b))
		}
		total = 0
		eachAttribute(b, func(_ uint16, v []byte) { total += 4 + len(v) })
		if total > len(b) {
			t.Errorf("%d bytes of attributes in %d", total, len(b))
		}
	})
}
