package bpf

import "encoding/binary"

// Layout of struct path_record in src/io.bpf.c, behind its key.
const (
	pathEpoch  = ioKeySize
	pathPID    = ioKeySize + 4
	pathFlags  = ioKeySize + 8
	pathLength = ioKeySize + 12
	pathNames  = ioKeySize + 16

	pathDeleted   = 1
	pathTruncated = 2
)

// deletedMark is what the kernel's own paths end with, d_path() in fs/d_path.c.
const deletedMark = " (deleted)"

// label is the path of a file at the first operation of a key in a window.
type label struct {
	key      transferKey
	epoch    uint32 // the window it belongs to
	from, to int    // of the text
	unknown  bool   // too long or too deep
}

// addLabel keeps one record of the ring until the window is put together.
func (s *ioSensor) addLabel(record []byte) {
	key, ok := pathKey(record)
	if !ok {
		return
	}
	l := label{key: key, epoch: binary.LittleEndian.Uint32(record[pathEpoch:]), from: len(s.text)}
	s.text, ok = appendPath(s.text, record)
	l.to, l.unknown = len(s.text), !ok
	s.labels = append(s.labels, l)
}

// keepLabels drops the labels of all windows but one: what programs wrote after
// the last flip was in the ring already when the window before was read.
func (s *ioSensor) keepLabels(epoch uint32) {
	kept, text := s.labels[:0], s.carried[:0]
	for _, l := range s.labels {
		if l.epoch == epoch {
			from := len(text)
			text = append(text, s.text[l.from:l.to]...)
			l.from, l.to = from, len(text)
			kept = append(kept, l)
		}
	}
	s.labels, s.text, s.carried = kept, text, s.text
}

// pathKey reads whose path a record holds.
func pathKey(record []byte) (transferKey, bool) {
	if len(record) < pathNames {
		return transferKey{}, false
	}
	return parseKey(record, binary.LittleEndian.Uint32(record[pathPID:]))
}

// appendPath puts the names of a record, which go from the file up to the root
// and end in NUL each, in the order of a path. It is false, and appends nothing,
// when the program did not reach the root.
//
// Shape: like /proc/PID/fd, with " (deleted)" behind a name that is gone; from the
// root of the file's mount namespace, whatever the process took for its root.
func appendPath(to, record []byte) ([]byte, bool) {
	if len(record) < pathNames {
		return to, false
	}
	flags, length := binary.LittleEndian.Uint32(record[pathFlags:]), binary.LittleEndian.Uint32(record[pathLength:])
	names := record[pathNames:]
	if flags&pathTruncated != 0 || uint64(length) > uint64(len(names)) {
		return to, false
	}
	names = names[:length]
	if len(names) == 0 {
		to = append(to, '/')
	}
	for end := len(names); end > 0; {
		if names[end-1] == 0 {
			end--
		}
		start := end
		for start > 0 && names[start-1] != 0 {
			start--
		}
		to = append(to, '/')
		to = append(to, names[start:end]...)
		end = start
	}
	if flags&pathDeleted != 0 {
		to = append(to, deletedMark...)
	}
	return to, true
}
