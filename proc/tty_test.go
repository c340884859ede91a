package proc

import (
	"os"
	"testing"
)

// device is new_encode_dev of include/linux/kdev_t.h.
func device(major, minor uint32) int32 {
	return int32(minor&0xff | major<<8 | minor&^0xff<<12)
}

func TestTTYNames(t *testing.T) {
	text, err := os.ReadFile("testdata/host/tty/drivers")
	if err != nil {
		t.Fatal(err)
	}
	recorded := parseTTYDrivers(text)
	if len(recorded) != 8 {
		t.Fatalf("%d drivers: %+v", len(recorded), recorded)
	}
	fixed := (&FS{mount: "nowhere", dir: -1}).readTTYs()
	for _, c := range []struct {
		major, minor uint32
		want         string
		everywhere   bool
	}{
		{136, 0, "pts/0", true}, {136, 3, "pts/3", true}, {136, 300, "pts/300", true}, {136, 1<<20 - 1, "pts/1048575", true},
		{4, 1, "tty1", true}, {4, 63, "tty63", true}, {4, 64, "ttyS0", true}, {4, 0, "tty0", false},
		{5, 0, "tty", true}, {5, 1, "console", true}, {5, 2, "ptmx", false}, {128, 7, "ptm7", false},
	} {
		if got := recorded.name(device(c.major, c.minor)); got != Some(c.want) {
			t.Errorf("%d:%d is %+v, want %s", c.major, c.minor, got, c.want)
		}
		if got := fixed.name(device(c.major, c.minor)); c.everywhere && got != Some(c.want) {
			t.Errorf("without the table %d:%d is %+v, want %s", c.major, c.minor, got, c.want)
		}
	}
	for _, dev := range []int32{0, device(229, 0), device(4, 70), -1} {
		if got := recorded.name(dev); got.Known() {
			t.Errorf("device %#x is %+v, want unknown", dev, got)
		}
	}
	hvc := parseTTYDrivers([]byte("hvc                  /dev/hvc       229 0-7 system\nusb                  /dev/ttyUSB    188 0-511 serial\n"))
	if got := hvc.name(device(229, 2)); got != Some("hvc2") {
		t.Errorf("hvc: %+v", got)
	}
	if got := hvc.name(device(188, 256)); got != Some("ttyUSB256") {
		t.Errorf("usb: %+v", got)
	}
}

func FuzzParseTTYDrivers(f *testing.F) {
	f.Add([]byte("serial               /dev/ttyS        4      64 serial\n"), int32(1088))
	f.Add([]byte("x /dev/ 4 1-63 y\n"), int32(1025))
	f.Fuzz(func(t *testing.T, b []byte, dev int32) {
		drivers := parseTTYDrivers(b)
		if len(drivers) > len(b) {
			t.Fatalf("%d drivers of %d bytes", len(drivers), len(b))
		}
		if name, ok := drivers.name(dev).Get(); ok && (name == "" || len(name) > len(b)+10) {
			t.Fatalf("name %q", name)
		}
	})
}
