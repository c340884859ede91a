package api

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"procinsh/proc"
	"procinsh/watch"
)

const (
	// maxHeavyRequests is how many readings of maps, memory and descriptors run at
	// the same time.
	maxHeavyRequests = 4
	// heavyTimeout is how long a further one waits for its turn before it is refused.
	heavyTimeout = 2 * time.Second
)

// enter takes one of the places for heavy requests; the caller gives it back with
// leave.
func (s *Server) enter(ctx context.Context) error {
	select {
	case s.heavy <- struct{}{}:
		return nil
	default:
	}
	t := time.NewTimer(heavyTimeout)
	defer t.Stop()
	select {
	case s.heavy <- struct{}{}:
		return nil
	case <-t.C:
		return errBusy
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *Server) leave() { <-s.heavy }

// read is the way of every one-shot: parse, check identity, ask, check identity.
// A process that went away meanwhile is that, whatever ask made of it.
func (s *Server) read(r *http.Request, heavy bool, ask func(p *proc.Process, q query) error) error {
	q, err := parseQuery(r)
	if err != nil {
		return err
	}
	id, err := q.identity()
	if err != nil {
		return err
	}
	return s.ask(r.Context(), id, heavy, func(p *proc.Process) error { return ask(p, q) })
}

func (s *Server) ask(ctx context.Context, id proc.ID, heavy bool, ask func(p *proc.Process) error) error {
	return s.bounded(ctx, id, heavy, func() error {
		p, err := s.fs.OpenProcess(id)
		if err != nil {
			return err
		}
		defer p.Close()
		err = ask(p)
		if gone := p.Check(); gone != nil {
			return gone
		}
		return err
	})
}

func (s *Server) getHealth(w http.ResponseWriter, r *http.Request) error {
	reply(w, r, http.StatusOK, "text/plain; charset=utf-8", []byte("ok\n"))
	return nil
}

func (s *Server) getProcesses(w http.ResponseWriter, r *http.Request) error {
	q, err := parseQuery(r)
	if err != nil {
		return err
	}
	want, err := q.listWant()
	if err != nil {
		return err
	}
	state, err := s.list.Now(r.Context(), want)
	if err != nil {
		return err
	}
	replyLong(w, r, state.Memo, eventKey{want: want}, func(b []byte, s spill) []byte { return appendProcesses(b, state.Rows, want, s) })
	return nil
}

func (s *Server) getTotals(w http.ResponseWriter, r *http.Request) error {
	state, err := s.list.Now(r.Context(), watch.ListWant{})
	if err != nil {
		return err
	}
	if state.TotalsErr != nil {
		return state.TotalsErr
	}
	replyValue(w, r, totalsAnswer(state))
	return nil
}

// getObservation answers without rates: those need two readings, which is what
// the stream is for.
func (s *Server) getObservation(w http.ResponseWriter, r *http.Request) error {
	var o watch.Observation
	if err := s.read(r, false, func(p *proc.Process, _ query) error { return p.ReadSample(&o.Sample) }); err != nil {
		return err
	}
	replyJSON(w, r, func(b []byte) []byte { return appendObservation(b, &o) })
	return nil
}

// truncatedHeader marks an answer whose form has no room for a warning.
const truncatedHeader = "X-Procinsh-Truncated"

func (s *Server) getThreads(w http.ResponseWriter, r *http.Request) error {
	var sample proc.Sample
	if err := s.read(r, false, func(p *proc.Process, _ query) error { return p.ReadSample(&sample) }); err != nil {
		return err
	}
	if sample.ThreadsTruncated {
		w.Header().Set(truncatedHeader, "threads")
	}
	replyJSON(w, r, func(b []byte) []byte { return appendThreads(b, sample.Threads, nil) })
	return nil
}

// getMaps answers 200 also when the kernel refuses: the reason is part of the
// answer.
func (s *Server) getMaps(w http.ResponseWriter, r *http.Request) error {
	a := mapsReading{}
	err := s.read(r, true, func(p *proc.Process, _ query) error {
		a.read(p)
		return nil
	})
	if err != nil {
		return err
	}
	var form *proc.ParseError
	if errors.As(a.err, &form) && s.warned.first("maps", a.err) {
		s.log.Error("maps are unreadable", "error", a.err)
	}
	replyJSON(w, r, a.append)
	return nil
}

// mapsReading is what GET /api/processes/maps found out.
type mapsReading struct {
	id        proc.ID
	maps      []proc.Mapping
	rollup    *proc.Rollup
	at        time.Time
	truncated bool
	err       error
}

// read prefers smaps and takes plain maps where that is refused.
func (a *mapsReading) read(p *proc.Process) {
	a.id = p.ID()
	a.maps, a.err = p.ReadSmaps(nil)
	if a.err != nil && !errors.Is(a.err, proc.ErrTruncated) {
		a.maps, a.err = p.ReadMaps(nil)
	}
	if errors.Is(a.err, proc.ErrTruncated) {
		a.truncated, a.err = true, nil
	}
	a.at = time.Now()
	if a.err != nil {
		a.maps = nil
		return
	}
	if rollup, err := p.ReadRollup(); err == nil {
		a.rollup = &rollup
	}
}

// append appends a MapsAnswer.
func (a *mapsReading) append(b []byte) []byte {
	b = append(b, `{"process_id":`...)
	b = appendIdentity(b, a.id)
	b = append(b, `,"maps":`...)
	b = appendList(b, a.maps, appendMapping)
	b = append(b, `,"rollup":`...)
	b = appendRollup(b, a.rollup)
	b = append(b, `,"captured_at":`...)
	if a.err != nil {
		b = append(b, "null"...)
	} else {
		b = appendInt(b, a.at.UnixMilli())
	}
	b = append(b, `,"error":`...)
	b = appendNullableString(b, errorText(a.err))
	b = append(b, `,"truncated":`...)
	b = appendBool(b, a.truncated)
	return append(b, '}')
}

// partialHeader marks raw memory that is less than was asked for.
const partialHeader = "X-Procinsh-Partial"

func (s *Server) getMemory(w http.ResponseWriter, r *http.Request) error {
	q, err := parseQuery(r)
	if err != nil {
		return err
	}
	id, err := q.identity()
	if err != nil {
		return err
	}
	address, length, err := q.memory()
	if err != nil {
		return err
	}
	buf := make([]byte, length)
	var n int
	err = s.ask(r.Context(), id, true, func(p *proc.Process) (err error) {
		n, err = p.ReadMemory(address, buf)
		return err
	})
	if err != nil {
		return err
	}
	at := time.Now()
	w.Header().Add("Vary", "Accept")
	if acceptsBytes(r) {
		if n < length {
			w.Header().Set(partialHeader, "true")
		}
		reply(w, r, http.StatusOK, "application/octet-stream", buf[:n])
		return nil
	}
	replyJSON(w, r, func(b []byte) []byte {
		return appendMemory(b, id, address, length, buf[:n], at)
	})
	return nil
}

// appendMemory appends a MemoryAnswer.
func appendMemory(b []byte, id proc.ID, address uint64, length int, data []byte, at time.Time) []byte {
	b = append(b, `{"process_id":`...)
	b = appendIdentity(b, id)
	b = append(b, `,"address":`...)
	b = appendAddress(b, address)
	b = append(b, `,"requested_length":`...)
	b = appendInt(b, int64(length))
	b = append(b, `,"bytes":`...)
	b = appendHex(b, data)
	b = append(b, `,"partial":`...)
	b = appendBool(b, len(data) < length)
	b = append(b, `,"captured_at":`...)
	b = appendInt(b, at.UnixMilli())
	return append(b, '}')
}

// scanners are descriptor scanners, each used by one request at a time and kept
// for its buffers.
type scanners struct{ pool *sync.Pool }

func newScanners(fs *proc.FS) scanners {
	return scanners{&sync.Pool{New: func() any { return fs.NewDescriptorScanner() }}}
}

func (s scanners) read(p *proc.Process) (*proc.Descriptors, error) {
	scanner := s.pool.Get().(*proc.DescriptorScanner)
	d, err := scanner.Read(p)
	s.pool.Put(scanner) // not after a panic, which may have left it half way
	return d, err
}

func (s *Server) getDescriptors(w http.ResponseWriter, r *http.Request) error {
	var id proc.ID
	var d *proc.Descriptors
	err := s.read(r, true, func(p *proc.Process, _ query) (err error) {
		id = p.ID()
		d, err = s.scanners.read(p)
		return err
	})
	if err != nil {
		return err
	}
	at := time.Now()
	replyJSON(w, r, func(b []byte) []byte { return appendDescriptors(b, id, d, at) })
	return nil
}

// appendDescriptors appends a DescriptorsAnswer.
func appendDescriptors(b []byte, id proc.ID, d *proc.Descriptors, at time.Time) []byte {
	b = append(b, `{"process_id":`...)
	b = appendIdentity(b, id)
	b = append(b, `,"captured_at":`...)
	b = appendInt(b, at.UnixMilli())
	b = append(b, `,"entries":`...)
	b = appendList(b, d.Entries, appendDescriptor)
	b = append(b, `,"warnings":`...)
	b = appendList(b, d.Warnings, func(b []byte, s *string) []byte { return appendString(b, *s) })
	return append(b, '}')
}

func (s *Server) getEnvironment(w http.ResponseWriter, r *http.Request) error {
	var a EnvironmentAnswer
	err := s.read(r, false, func(p *proc.Process, _ query) error {
		entries, truncated, err := p.ReadEnvironment()
		a = environmentAnswer(p.ID(), entries, truncated)
		return err
	})
	if err != nil {
		return err
	}
	replyValue(w, r, a)
	return nil
}

func (s *Server) getAuxv(w http.ResponseWriter, r *http.Request) error {
	var a AuxvAnswer
	err := s.read(r, false, func(p *proc.Process, _ query) error {
		v, err := p.ReadAuxv()
		if err == nil {
			a = auxvAnswer(p.ID(), v)
		}
		return err
	})
	if err != nil {
		return err
	}
	replyValue(w, r, a)
	return nil
}

func (s *Server) getSignals(w http.ResponseWriter, r *http.Request) error {
	var a SignalsAnswer
	err := s.read(r, false, func(p *proc.Process, _ query) error {
		v, err := p.ReadSignals()
		if err == nil {
			a = signalsAnswer(p.ID(), v)
		}
		return err
	})
	if err != nil {
		return err
	}
	replyValue(w, r, a)
	return nil
}

func (s *Server) getContext(w http.ResponseWriter, r *http.Request) error {
	var a ContextAnswer
	err := s.read(r, false, func(p *proc.Process, _ query) error {
		v, err := p.ReadContext()
		if err == nil {
			a = contextAnswer(p.ID(), v)
			if s.runs != nil {
				a.RunID = textOrNull(s.runs.RunOf()[p.ID()])
			}
		}
		return err
	})
	if err != nil {
		return err
	}
	replyValue(w, r, a)
	return nil
}
