package proc

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
)

// YamaScope returns kernel.yama.ptrace_scope: 0 the owner may trace, 1 a parent
// its children, 2 only CAP_SYS_PTRACE, 3 nobody.
//
// Absent: 0 for a kernel without Yama.
// Source: security/yama/yama_lsm.c, Documentation/admin-guide/LSM/Yama.rst, 3.4.
func (fs *FS) YamaScope() (int, error) {
	return readYamaScope(fs.mount + "/sys/kernel/yama/ptrace_scope")
}

func readYamaScope(path string) (int, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read kernel.yama.ptrace_scope: %w", err)
	}
	n, err := strconv.Atoi(string(bytes.TrimSpace(text)))
	if err != nil || n < 0 {
		return 0, &ParseError{File: "sys/kernel/yama/ptrace_scope"}
	}
	return n, nil
}
