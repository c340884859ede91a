package bpf

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
)

// However many CPUs there are, the tables take at most 32 MiB, or the sensor says that
// they would take more.
func TestTablesStayWithinBudget(t *testing.T) {
	cpu, err := parseObject(cpuObject)
	if err != nil {
		t.Fatal(err)
	}
	io, err := parseObject(ioObject)
	if err != nil {
		t.Fatal(err)
	}
	for _, cpus := range []int{1, 2, 8, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 2048, 4096, maxCPUs} {
		a, b := newUnit(cpu, nil), newUnit(io, nil)
		if err := sizeCPUTables(a, slotsPerBank(cpuSlots, cpus, slotSize, cpuSlotShare), cpus); err != nil {
			t.Fatal(err)
		}
		sum := a.bytes(cpus)
		if err := a.tooManyCPUs(cpus, cpuTableShare); err != nil {
			t.Errorf("processor time: %v", err)
		}
		slots, err := sizeIOTables(b, Options{}, ioRegions, cpus)
		if err != nil {
			t.Fatal(err)
		}
		if err := b.tooManyCPUs(cpus, ioTableShare); err == nil {
			sum += b.bytes(cpus)
		} else if cpus <= 512 {
			t.Errorf("transfers: %v", err)
		}
		if sum > maxTableBytes {
			t.Errorf("%d CPUs: %d bytes", cpus, sum)
		}
		if cpus <= 64 && slots != ioSlots {
			t.Errorf("%d CPUs: %d slots, want all %d", cpus, slots, ioSlots)
		}
		t.Logf("%4d CPUs: %d KiB, %d slots of transfers", cpus, sum>>10, slots)
	}
}

// The kernel says of each table what it takes; 6.4 and later count it exactly.
func TestTablesTakeWhatIsSaid(t *testing.T) {
	needRoot(t)
	s := Open(Options{})
	defer s.Close()
	cpus, err := possibleCPUs()
	if err != nil {
		t.Fatal(err)
	}
	sum := 0
	check := func(u *unit, share int) {
		for name, table := range u.tables {
			want := table.spec.bytes(cpus)
			got := memlock(t, table.fd)
			if got > want+want/8+16<<10 {
				t.Errorf("table %s takes %d bytes, said were %d", name, got, want)
			}
			sum += got
		}
	}
	if s.cpu == nil || s.io.unit == nil {
		t.Fatalf("the sensors are not open: %+v", s.Status())
	}
	check(s.cpu.unit, cpuTableShare)
	check(s.io.unit, ioTableShare)
	if sum > maxTableBytes || sum == 0 {
		t.Errorf("all tables take %d bytes, want at most %d", sum, maxTableBytes)
	}
	t.Logf("all tables take %d KiB", sum>>10)
}

// memlock is what the kernel says that a map takes.
func memlock(t *testing.T, fd int) int {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", fd))
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(b) {
		if text, ok := strings.CutPrefix(string(line), "memlock:"); ok {
			n, err := strconv.Atoi(strings.TrimSpace(text))
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("no memlock in %s", b)
	return 0
}
