package proc

// EnvironmentEntry is one string of the environment, raw bytes.
type EnvironmentEntry struct {
	Name  string
	Value Opt[string] // unknown when the string has no "="
}

// ReadEnvironment returns the environment at exec, and whether it was cut at 1 MiB.
func (p *Process) ReadEnvironment() (entries []EnvironmentEntry, truncated bool, err error) {
	panic("stub")
}
