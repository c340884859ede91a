package api

import (
	"context"
	"net"
	"net/http"
	"sync"
)

// maxConnections is how many connections may be open beside those of streams.
const maxConnections = 512

// conns are the open connections. For each that is one too many another is closed:
// the oldest of a user who may not ask, else the one that has been without a request
// for longest, at worst the new one. So nobody keeps out those who may ask.
type conns struct {
	max int

	mu   sync.Mutex
	all  map[*conn]struct{}
	turn uint64 // grows with each change of a connection
}

// use is what a connection is used for, guarded by conns.mu.
type use struct {
	since  uint64
	busy   bool // with a request
	stream bool
}

func newConns() conns { return conns{max: maxConnections, all: map[*conn]struct{}{}} }

// change notes a state and returns the connection to be closed for it, if any.
func (l *conns) change(c *conn, state http.ConnState) *conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.turn++
	c.use = use{since: l.turn, busy: state == http.StateActive}
	switch state {
	case http.StateNew:
		l.all[c] = struct{}{}
		victim := l.victim()
		delete(l.all, victim)
		return victim
	case http.StateClosed, http.StateHijacked:
		delete(l.all, c)
	}
	return nil
}

func (l *conns) victim() *conn {
	others := 0
	var refused, idle *conn
	for c := range l.all {
		if c.use.stream {
			continue
		}
		others++
		if c.refused.Load() && (refused == nil || c.use.since < refused.use.since) {
			refused = c
		}
		if !c.use.busy && (idle == nil || c.use.since < idle.use.since) {
			idle = c
		}
	}
	switch {
	case others <= l.max:
		return nil
	case refused != nil:
		return refused
	}
	return idle
}

// stream notes that the connection of a request carries a stream from now on.
func (l *conns) stream(ctx context.Context) {
	c := connOf(ctx)
	l.mu.Lock()
	c.use.stream = true
	l.mu.Unlock()
}

// connState is called by net/http, for a new connection before it accepts the next.
func (s *Server) connState(nc net.Conn, state http.ConnState) {
	if victim := s.conns.change(ownConn(nc), state); victim != nil {
		victim.Close()
		if s.warned.firstText("connections", "full") {
			s.log.Warn("too many connections: those of users who may not ask and idle ones are closed", "limit", s.conns.max)
		}
	}
}
