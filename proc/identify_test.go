package proc

import (
	"errors"
	"os"
	"testing"
)

func TestIdentify(t *testing.T) {
	files, err := Open("/proc")
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	id, name, err := files.Identify(int32(os.Getpid()))
	if err != nil || id.PID != int32(os.Getpid()) || id.StartTicks == 0 || name == "" {
		t.Fatalf("this process is %+v %q, %v", id, name, err)
	}
	p, err := files.OpenProcess(id)
	if err != nil {
		t.Fatalf("open what was identified: %v", err)
	}
	p.Close()
	for _, pid := range []int32{-1, 1 << 30} {
		if id, name, err := files.Identify(pid); !errors.Is(err, ErrGone) || id != (ID{}) || name != "" {
			t.Errorf("%d is %+v %q, %v, want ErrGone", pid, id, name, err)
		}
	}
}
