package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"procinsh/proc"
)

const (
	// maxUsesTime is how long processes are asked, after the descriptors, for what
	// they use without one.
	maxUsesTime = 3 * time.Second
	// usePatience is how long one process may hold that up.
	usePatience = time.Second
)

func (s scanners) find(q proc.Sought) (*proc.Holders, error) {
	scanner := s.pool.Get().(*proc.DescriptorScanner)
	h, err := scanner.FindHolders(q)
	s.pool.Put(scanner) // not after a panic, which may have left it half way
	return h, err
}

func (s *Server) getHolders(w http.ResponseWriter, r *http.Request) error {
	q, err := parseQuery(r)
	if err != nil {
		return err
	}
	sought, err := q.sought()
	if err != nil {
		return err
	}
	if err := s.enter(r.Context()); err != nil {
		return err
	}
	defer s.leave()
	var h *proc.Holders
	err = s.bounded(r.Context(), proc.ID{}, false, func() (err error) {
		h, err = s.scanners.find(sought)
		return err
	})
	if err != nil {
		return err
	}
	if err := s.addUses(r.Context(), h); err != nil {
		return err
	}
	h.Finish()
	at := time.Now()
	replyJSON(w, r, func(b []byte) []byte { return appendHolders(b, h, at) })
	return nil
}

// addUses asks each process whether it has the file mapped, or as its executable,
// cwd or root. Maps can hold whoever reads them; such a process costs a goroutine and
// is passed over.
func (s *Server) addUses(ctx context.Context, h *proc.Holders) error {
	if h.File == nil {
		return nil
	}
	end := time.Now().Add(maxUsesTime)
	held := 0
	for i, pid := range h.PIDs {
		if !time.Now().Before(end) {
			h.Warnings = append(h.Warnings, fmt.Sprintf("of %d of %d processes only the descriptors were looked at: the limit of %v was reached", len(h.PIDs)-i, len(h.PIDs), maxUsesTime))
			break
		}
		var uses []proc.Holder
		patience, cancel := context.WithTimeout(ctx, usePatience)
		// The number alone: whoever has it now is held.
		err := s.bounded(patience, proc.ID{PID: pid}, false, func() (err error) {
			uses, err = s.fs.FindUses(pid, h.File)
			return err
		})
		cancel()
		switch {
		case err == nil:
			h.Add(uses)
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, errHeld), errors.Is(err, context.DeadlineExceeded):
			held++
		case statusOf(err).status == http.StatusInternalServerError:
			return err
		}
	}
	if held > 0 {
		h.Warnings = append(h.Warnings, fmt.Sprintf("processes of which only the descriptors were looked at, as the kernel holds whoever reads their maps: %d", held))
	}
	return nil
}

// appendHolders appends a HoldersAnswer.
func appendHolders(b []byte, h *proc.Holders, at time.Time) []byte {
	b = append(b, `{"captured_at":`...)
	b = appendInt(b, at.UnixMilli())
	b = append(b, `,"source":"text","holders":`...)
	b = appendList(b, h.List, appendHolder)
	b = append(b, `,"warnings":`...)
	b = appendList(b, h.Warnings, func(b []byte, s *string) []byte { return appendString(b, *s) })
	return append(b, '}')
}

func appendHolder(b []byte, h *proc.Holder) []byte {
	b = append(b, `{"process_id":`...)
	b = appendIdentity(b, h.ID)
	b = append(b, `,"name":`...)
	b = appendString(b, h.Name)
	b = append(b, `,"fd":`...)
	if fd, ok := h.FD.Get(); ok {
		b = appendInt(b, int64(fd))
	} else {
		b = append(b, "null"...)
	}
	b = append(b, `,"access":`...)
	b = appendOptString(b, h.Access)
	b = append(b, `,"relation":`...)
	b = appendString(b, h.Relation)
	b = append(b, `,"path":`...)
	b = appendOptString(b, h.Path)
	b = append(b, `,"deleted":`...)
	b = appendOptBool(b, h.Deleted)
	socket := h.Socket
	if socket == nil {
		socket = &proc.HostSocket{}
	}
	b = append(b, `,"protocol":`...)
	b = appendOptString(b, socket.Protocol)
	b = append(b, `,"state":`...)
	b = appendOptString(b, socket.State)
	b = append(b, `,"local":`...)
	b = appendOptString(b, socket.Local)
	b = append(b, `,"remote":`...)
	b = appendOptString(b, socket.Remote)
	b = append(b, `,"network_namespace":`...)
	b = appendOptID(b, h.Namespace)
	return append(b, '}')
}
