package watch

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"procinsh/proc"
)

// slowNames takes its time.
type slowNames struct {
	took  time.Duration
	calls atomic.Int32
	name  string
}

func (r *slowNames) LookupAddr(ctx context.Context, address string) ([]string, error) {
	r.calls.Add(1)
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(r.took):
	}
	if r.name == "" {
		return nil, errors.New("no such host")
	}
	return []string{strings.ReplaceAll(r.name, "*", address)}, nil
}

func TestNames(t *testing.T) {
	far := netip.MustParseAddr("192.0.2.1")
	for _, c := range []struct {
		name, answer string
		took         time.Duration
		ip           netip.Addr
		want         string
		asked        int32 // times in an hour in which somebody looks each second
	}{
		{"found", "host-*.example.", time.Second, far, "host-192.0.2.1.example", 6},
		{"none", "", time.Second, far, "", 12},
		{"never answered", "x.", time.Minute, far, "", 12},
		{"too long", strings.Repeat("a", 300), 0, far, "", 12},
		{"loopback", "localhost.", 0, netip.MustParseAddr("127.0.0.1"), "", 0},
		{"loopback of IPv6", "localhost.", 0, netip.MustParseAddr("::1"), "", 0},
		{"any", "x.", 0, netip.MustParseAddr("0.0.0.0"), "", 0},
		{"multicast", "x.", 0, netip.MustParseAddr("224.0.0.251"), "", 0},
		{"link local", "x.", 0, netip.MustParseAddr("fe80::1"), "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &slowNames{took: c.took, name: c.answer}
				n := newNames(r)
				ctx, cancel := context.WithCancel(t.Context())
				go n.run(ctx)
				began := time.Now()
				if got := n.of(c.ip); got.Known() || time.Since(began) != 0 {
					t.Errorf("the first time: %v after %v", got, time.Since(began))
				}
				var got proc.Opt[string]
				for range 3600 {
					time.Sleep(time.Second)
					got = n.of(c.ip)
				}
				if got.Or("") != c.want {
					t.Errorf("got %q, want %q", got.Or(""), c.want)
				}
				if a := r.calls.Load(); a < c.asked-1 || a > c.asked+1 {
					t.Errorf("looked up %d times in an hour, want about %d", a, c.asked)
				}
				cancel()
			})
		})
	}
}

func TestNamesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNames(&slowNames{name: "a."})
		address := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}) }
		for i := range maxNames + 10 {
			n.of(address(i))
		}
		if len(n.entries) != maxNames || len(n.queue) != maxNameQueue {
			t.Errorf("%d names, %d in the queue", len(n.entries), len(n.queue))
		}
		if !n.wasFull() || n.wasFull() {
			t.Error("that it was full is told once")
		}
		ctx, cancel := context.WithCancel(t.Context())
		go n.run(ctx)
		time.Sleep(nameInterest + time.Second) // nobody has had those connections for long
		n.of(address(maxNames + 1))
		if !n.wasFull() || len(n.entries) != 0 {
			t.Errorf("%d names are left that nobody wants", len(n.entries))
		}
		n.of(address(maxNames + 1))
		time.Sleep(time.Second)
		if got := n.of(address(maxNames + 1)); got != proc.Some("a") {
			t.Errorf("got %v once there was room", got)
		}
		cancel()
	})
}

// What was asked for when the last viewer left is asked for again.
func TestNamesComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &slowNames{took: 2 * time.Second, name: "a."}
		n := newNames(r)
		far := netip.MustParseAddr("192.0.2.1")
		for range 2 {
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() {
				n.run(ctx)
				close(done)
			}()
			n.of(far)
			time.Sleep(time.Second)
			cancel()
			<-done
		}
		ctx, cancel := context.WithCancel(t.Context())
		go n.run(ctx)
		n.of(far)
		time.Sleep(3 * time.Second)
		if got := n.of(far); got != proc.Some("a") || r.calls.Load() != 3 {
			t.Errorf("got %v after %d lookups", got, r.calls.Load())
		}
		cancel()
	})
}
