package watch

import (
	"sync"
	"time"

	"procinsh/proc"
)

const (
	// scanPatience is how long a scan waits for one reading that the kernel holds
	// before it goes on without.
	scanPatience = time.Second
	// scanImpatience is the same once a scan has waited that long, so that many such
	// processes do not hold it up one after the other.
	scanImpatience = 100 * time.Millisecond
)

// hostList is the list of the host: from the text files of procfs and, while there
// are viewers, from the kernel's own tables where that can be, else with descriptors that
// are kept. A process that makes the kernel hold whoever reads its command line or maps
// costs a goroutine, and is listed without them; see proc.Scanner.Leave.
type hostList struct {
	fs      *proc.FS
	mu      sync.Mutex // held for as long as a scan takes; guards the scanner
	scanner scanner
	tables  *tables[TableReader] // nil: texts alone

	mappings *mappingTables // likewise
}

// scanner is *proc.Scanner.
type scanner interface {
	Scan(want proc.Want) ([]proc.Row, error)
	Resume() ([]proc.Row, error)
	Turn() uint64
	Leave(number uint64) bool
	ReadFrom(tables proc.TaskSource)
	TablesError() error
	Keep(on bool)
}

func newHostList(fs *proc.FS, tables *tables[TableReader], mappings *mappingTables) *hostList {
	scanner := fs.NewScanner()
	if mappings != nil {
		scanner.ReadMappingsFrom(mappings)
	}
	return &hostList{fs: fs, scanner: scanner, tables: tables, mappings: mappings}
}

func (s *hostList) ReadTotals(t *proc.Totals) error { return s.fs.ReadTotals(t) }

// scanned is what one goroutine made of a scan.
type scanned struct {
	rows []proc.Row
	err  error
}

func (s *hostList) Scan(want proc.Want) ([]proc.Row, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.tables.scan(s.reading())()
	read := func() ([]proc.Row, error) { return s.scanner.Scan(want) }
	patience := scanPatience
	for {
		done := make(chan scanned, 1)
		go func() {
			var r scanned
			r.err = guard(func() (err error) {
				r.rows, err = read()
				return err
			})
			done <- r
		}()
		if r, ok := s.await(done, patience); ok {
			return r.rows, r.err
		}
		read, patience = s.scanner.Resume, scanImpatience
	}
}

// await waits for a scan, or until one reading of it has taken longer than
// patience; then the scan is the caller's to resume.
func (s *hostList) await(done <-chan scanned, patience time.Duration) (scanned, bool) {
	tick := time.NewTicker(patience)
	defer tick.Stop()
	last := uint64(0)
	for {
		select {
		case r := <-done:
			return r, true
		case <-tick.C:
		}
		turn := s.scanner.Turn()
		if turn != 0 && turn == last && s.scanner.Leave(turn) {
			return scanned{}, false
		}
		last = turn
	}
}
