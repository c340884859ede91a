package proc

import "time"

// Sample is one reading of a process and its threads.
type Sample struct {
	ID                       ID
	At                       time.Time
	State                    byte // as in Row
	CPUTicks                 uint64
	RSS, VMS, Swap           Opt[uint64] // bytes; swap is unknown for kernel threads
	MinorFaults, MajorFaults uint64      // cumulative, all threads
	VoluntarySwitches        Opt[uint64] // sum over live threads; unknown when any is
	NonvoluntarySwitches     Opt[uint64]
	IO                       Opt[IO]
	CPU, Nice, Priority      int32
	Threads                  []Thread // by TID
	ThreadsTruncated         bool     // only the first 4,096 are there, and the sums are unknown
}

// ReadSample fills s, reusing its thread slice: what s held before is overwritten.
// A thread that ends meanwhile is left out. p remembers the threads of its last
// sample: where one still sleeps is not asked again, and names make no new strings.
//
// When the leader has ended while other threads live, it stands among the threads
// with state Z, the sizes are those of a live thread, and State is the letter of
// the most active one.
//
// Errors: ErrGone; fs.ErrPermission; *ParseError. s is of no use then.
// Effect: none on the target.
// Source: /proc/PID/{stat,statm,io} and task/TID/{stat,status,wchan,syscall}; what
// ReadThreadsFrom names for stat and status of the threads.
func (p *Process) ReadSample(s *Sample) error {
	if err := p.Check(); err != nil {
		return err
	}
	st, err := p.stat()
	if err != nil {
		return err
	}
	*s = Sample{
		ID: p.id, At: time.Now(), State: st.state, CPUTicks: st.utime + st.stime,
		MinorFaults: st.minorFault, MajorFaults: st.majorFault,
		CPU: st.processor, Nice: st.nice, Priority: st.priority,
		Threads: s.Threads,
	}
	if err := p.readThreads(s, st.threads, p.names(&st)); err != nil {
		return err
	}
	if text, err := p.readFile("statm", p.buf); err == nil {
		p.buf = text
		if vms, rss, ok := parseStatm(text); ok {
			s.VMS, s.RSS = Some(vms), Some(rss)
		}
	}
	if text, err := p.readFile("io", p.buf); err == nil {
		p.buf = text
		if io, ok := parseIO(text); ok {
			s.IO = Some(io)
		}
	}
	s.sum(st.ended())
	return p.Check()
}

// sum fills what is added up from the threads, and the state of a process whose
// leader has ended.
func (s *Sample) sum(leaderless bool) {
	known, voluntary, nonvoluntary := !s.ThreadsTruncated && len(s.Threads) > 0, uint64(0), uint64(0)
	for i := range s.Threads {
		t := &s.Threads[i]
		v, ok := t.VoluntarySwitches.Get()
		n, ok2 := t.NonvoluntarySwitches.Get()
		voluntary, nonvoluntary, known = voluntary+v, nonvoluntary+n, known && ok && ok2
		if leaderless {
			s.State = moreActive(s.State, t.State)
		}
	}
	if known {
		s.VoluntarySwitches, s.NonvoluntarySwitches = Some(voluntary), Some(nonvoluntary)
	}
}
