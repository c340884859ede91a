package proc

// ReadMemory reads len(buf) bytes at address with process_vm_readv, the target
// running on. It returns how many bytes were readable from there on.
//
// Errors: ErrGone; fs.ErrPermission; ErrUnmapped when not one byte is readable.
func (p *Process) ReadMemory(address uint64, buf []byte) (int, error) { panic("stub") }
