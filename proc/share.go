package proc

// sharedTexts are the executable, the cgroup and the terminal of processes with one mark:
// objects of the kernel that they share, so that their texts are the same. They are known
// for one scan, since a later object may have the place of an earlier one.
type sharedTexts struct {
	exe, cgroup string
	container   *string
	tty         int32
	agreed      bool // two processes were read, and had the same

	last *Details // of the last process, for the next that has all the same
	sum  uint64
}

// bearWitness notes the texts that were read of the process with r.mark. It may have
// changed since the tables were read, so it takes two.
func (r *reader) bearWitness(st *stat) {
	t := &r.texts
	if r.mark == 0 || t.exe == nil || t.cgroup == nil {
		return
	}
	s := r.shared[r.mark]
	switch {
	case s == nil, s.exe != string(t.exe), s.cgroup != string(t.cgroup), s.tty != st.tty:
		r.shared[r.mark] = &sharedTexts{exe: string(t.exe), cgroup: string(t.cgroup), container: containerText(t.cgroup), tty: st.tty}
	default:
		s.agreed = true
	}
}

// share makes the details of a process from its command line and from what it shares
// with others, and tells whether it could.
func (r *reader) share(t *Task, row *Row, k *known, name []byte) bool {
	s := r.shared[t.Mark]
	if s == nil || !s.agreed || t.Command == nil || t.Stack == 0 || row.KernelThread || k.files != nil {
		return false
	}
	if k.id != row.ID {
		*k = known{id: row.ID}
	}
	x := &r.texts
	x.comm, x.exe, x.cgroup = append(x.comm[:0], name...), append(x.exeBuf[:0], s.exe...), append(x.cgroupBuf[:0], s.cgroup...)
	x.command, x.cut, x.shared = t.Command, t.CommandCut, s
	st := stat{tty: s.tty}
	sum := x.sum(&st, row)
	if sum != s.sum {
		s.last = nil
	}
	r.keep(&st, row, k, sum, true, s.last)
	s.last, s.sum = k.details, sum
	x.command = nil // it is the tables' own
	k.stack, k.tty, k.uid, k.euid, k.mark, k.users = t.Stack, s.tty, row.UID, row.EUID, t.Mark, x.users.readings
	return true
}
