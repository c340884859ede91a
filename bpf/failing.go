package bpf

import "fmt"

// maxFailures is how often in a row the reading of a sensor may fail; then it is
// detached: its programs would run in every process for nothing.
const maxFailures = 20

// failures counts those in a row.
type failures int

func (f *failures) tooMany(err error) bool {
	if err == nil {
		*f = 0
		return false
	}
	*f++
	return *f >= maxFailures
}

// counts are what the sensors have lost since they were attached.
type counts struct{ lost, cpuLost, filesLost, unresolved uint64 }

func (c *counts) addCPU(s *cpuSensor) {
	n := s.lostCount()
	c.lost += n
	c.cpuLost += n
	c.unresolved += s.unresolved()
}

func (c *counts) addIO(s *ioSensor) {
	lost, filesLost := s.lost()
	c.lost += lost
	c.filesLost += filesLost
	c.unresolved += s.unresolved()
}

func detached(err error) SensorStatus {
	return SensorStatus{StateError, fmt.Sprintf("detached after %d readings failed in a row: %v", maxFailures, err)}
}

// detachCPU ends the sensor of processor time for good, and says why.
func (s *Sensors) detachCPU(why error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended.addCPU(s.cpu)
	err := s.cpu.close()
	s.cpu, s.status.CPU = nil, detached(why)
	return err
}

// detachIO ends the sensors of transfers for good; those that were there say why.
func (s *Sensors) detachIO(why error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended.addIO(s.io)
	err := s.io.close()
	s.io = nil
	for _, st := range []*SensorStatus{&s.status.IPC, &s.status.Files} {
		if st.State == StateObserving {
			*st = detached(why)
		}
	}
	return err
}
