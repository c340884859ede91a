package bpf

import "slices"

// Backends are the hooks that each sensor counts at, as "tp_btf/sched_switch" and
// "fexit/vfs_read".
//
// Absent: empty for a sensor that does not work.
func (s *Sensors) Backends() (cpu, ipc, files []string) {
	if s.cpu != nil {
		cpu = s.cpu.unit.hooks(func(string) bool { return true })
	}
	if s.io != nil && s.io.unit != nil {
		of := func(parts ...*part) []string {
			return s.io.unit.hooks(func(program string) bool {
				return slices.ContainsFunc(parts, func(p *part) bool {
					return slices.Contains(p.way().programs, program) || p.way().name == bySysExit && program == s.io.plan.sys
				})
			})
		}
		ipc, files = of(s.io.plan.parts()...), of(&s.io.plan.vfs)
	}
	return cpu, ipc, files
}

// hooks are those of the attached programs that are wanted, by name.
func (u *unit) hooks(wanted func(program string) bool) []string {
	var all []string
	for _, p := range u.programs {
		if p.hook != "" && wanted(p.name) {
			all = append(all, p.hook)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
