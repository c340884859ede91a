package watch

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"procinsh/proc"
)

const (
	// maxNames is how many addresses are kept with their names.
	maxNames = 4096
	// maxNameQueue is how many wait to be looked up; the others come with a later
	// topology.
	maxNameQueue = 256
	// maxNameLength is how long a name is at most, RFC 1035.
	maxNameLength = 255

	nameWorkers  = 4
	nameTimeout  = 5 * time.Second
	nameAge      = 10 * time.Minute // then it is looked up again
	namelessAge  = 5 * time.Minute  // the same where there was none
	nameInterest = 30 * time.Minute // one that no connection has had so long goes
)

// resolver is *net.Resolver.
type resolver interface {
	LookupAddr(ctx context.Context, address string) ([]string, error)
}

// names looks up the names of remote addresses in the background and keeps them.
// Asking never waits: a name is unknown until it was found. Safe for concurrent use.
type names struct {
	resolver resolver
	queue    chan netip.Addr

	mu      sync.Mutex
	entries map[netip.Addr]*nameEntry
	full    bool // since it was last asked about
}

type nameEntry struct {
	name  proc.Opt[string]
	due   time.Time // when to look it up again
	used  time.Time
	asked bool // it is in the queue or with a worker
}

func newNames(r resolver) *names {
	if r == nil {
		r = &net.Resolver{PreferGo: true}
	}
	return &names{resolver: r, queue: make(chan netip.Addr, maxNameQueue), entries: map[netip.Addr]*nameEntry{}}
}

// of returns the name of an address as far as it is known, and has it looked up
// when it is not or has grown old.
func (n *names) of(ip netip.Addr) proc.Opt[string] {
	if n == nil || ip.IsLoopback() || ip.IsUnspecified() || ip.IsMulticast() || ip.IsLinkLocalUnicast() {
		return proc.Opt[string]{}
	}
	now := time.Now()
	n.mu.Lock()
	defer n.mu.Unlock()
	e := n.entries[ip]
	if e == nil {
		if len(n.entries) >= maxNames {
			n.full = true
			return proc.Opt[string]{}
		}
		e = &nameEntry{}
		n.entries[ip] = e
	}
	e.used = now
	if !e.asked && !now.Before(e.due) {
		select {
		case n.queue <- ip:
			e.asked = true
		default: // it comes with a later topology
		}
	}
	return e.name
}

// wasFull tells whether an address found no room since the last call, and makes
// room of what nobody is connected with any more.
func (n *names) wasFull() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	full := n.full
	n.full = false
	if full {
		for ip, e := range n.entries {
			if !e.asked && time.Since(e.used) > nameInterest {
				delete(n.entries, ip)
			}
		}
	}
	return full
}

// run looks up what is asked for until ctx ends.
func (n *names) run(ctx context.Context) {
	var workers sync.WaitGroup
	for range nameWorkers {
		workers.Go(func() {
			for {
				select {
				case <-ctx.Done():
					return
				case ip := <-n.queue:
					n.lookup(ctx, ip)
				}
			}
		})
	}
	workers.Wait()
	// What nobody came to is asked for anew when there are viewers again.
	n.mu.Lock()
	defer n.mu.Unlock()
	for {
		select {
		case ip := <-n.queue:
			n.entries[ip].asked = false
		default:
			return
		}
	}
}

func (n *names) lookup(ctx context.Context, ip netip.Addr) {
	turn, cancel := context.WithTimeout(ctx, nameTimeout)
	found, err := n.resolver.LookupAddr(turn, ip.String())
	cancel()
	n.mu.Lock()
	defer n.mu.Unlock()
	e := n.entries[ip]
	e.asked = false
	if ctx.Err() != nil {
		return // cut short by us
	}
	age := nameAge
	e.name = proc.Opt[string]{}
	if err == nil && len(found) > 0 {
		if name := strings.TrimSuffix(found[0], "."); name != "" && len(name) <= maxNameLength {
			e.name = proc.Some(name)
		}
	}
	if !e.name.Known() {
		age = namelessAge
	}
	e.due = time.Now().Add(age)
}
