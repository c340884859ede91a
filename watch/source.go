package watch

import "procinsh/proc"

// listSource is where the list comes from. List calls it from one goroutine at a
// time.
type listSource interface {
	// Scan returns every process by PID; the slice may be reused by the next call.
	Scan(want proc.Want) ([]proc.Row, error)
	ReadTotals(t *proc.Totals) error
	// Begin says that viewers came: what scans need may be made and kept. End says that
	// they left; it waits for a scan that is being made.
	Begin()
	End()
	// Source says what scans read while there are viewers, MapsSource where they have map
	// summaries from.
	Source() Source
	MapsSource() Source
}

// processSource opens single processes. Safe for concurrent use.
type processSource interface {
	Open(id proc.ID) (target, error)
}

// target is an open process. Not safe for concurrent use. Each reading answers for
// the process that was opened or fails with proc.ErrGone.
type target interface {
	ReadRow() (proc.Row, error)
	ReadSample(s *proc.Sample) error
	ReadMaps(dst []proc.Mapping) ([]proc.Mapping, error)
	ReadSmaps(dst []proc.Mapping) ([]proc.Mapping, error)
	ReadRollup() (proc.Rollup, error)
	Close() error
}

// textProcesses are single processes from the text files of procfs, and the threads of
// those that have many from the kernel's own tables.
type textProcesses struct {
	fs      *proc.FS
	threads *threadTables // nil: threads from the texts too
}

func (s textProcesses) Open(id proc.ID) (target, error) {
	p, err := s.fs.OpenProcess(id)
	if err != nil {
		return nil, err
	}
	s.threads.begin()
	if s.threads != nil {
		p.ReadThreadsFrom(s.threads)
	}
	return textTarget{p, s.fs, s.threads}, nil
}

// textTarget checks the identity after each reading, where the reading itself does
// not end with that.
type textTarget struct {
	p       *proc.Process
	fs      *proc.FS
	threads *threadTables
}

func (t textTarget) checked(err error) error {
	if gone := t.p.Check(); gone != nil {
		return gone
	}
	return err
}

// ReadRow uses a scanner of its own: it is called once a viewer, and a target that
// blocks the reading of its command line then blocks no other viewer.
func (t textTarget) ReadRow() (proc.Row, error) {
	return t.fs.NewScanner().ReadRow(t.p, proc.Want{})
}

func (t textTarget) ReadSample(s *proc.Sample) error { return t.p.ReadSample(s) }

func (t textTarget) ReadMaps(dst []proc.Mapping) ([]proc.Mapping, error) {
	dst, err := t.p.ReadMaps(dst)
	return dst, t.checked(err)
}

func (t textTarget) ReadSmaps(dst []proc.Mapping) ([]proc.Mapping, error) {
	dst, err := t.p.ReadSmaps(dst)
	return dst, t.checked(err)
}

func (t textTarget) ReadRollup() (proc.Rollup, error) {
	r, err := t.p.ReadRollup()
	return r, t.checked(err)
}

func (t textTarget) Close() error {
	t.threads.end()
	return t.p.Close()
}
