package elf

import (
	"strings"

	"github.com/ianlancetaylor/demangle"
)

const (
	maxMangled   = 4096 // bytes of a name that is demangled; longer ones stay raw
	maxDemangled = 4096 // bytes of a demangled name
)

// Demangle returns the name as its author wrote it: C++ (Itanium ABI), Rust
// legacy and v0. What a compiler appended (.cold, .part.0, .constprop.1) is kept
// as [clone .cold]. A name that is not mangled, or is too long, is returned as it is.
func Demangle(name string) string {
	if len(name) > maxMangled || !mangled(name) {
		return name
	}
	out, err := demangle.ToString(name, demangle.MaxLength(12))
	if err != nil || len(out) > maxDemangled {
		return name
	}
	return out
}

func mangled(name string) bool {
	return strings.HasPrefix(name, "_Z") || strings.HasPrefix(name, "__Z") || strings.HasPrefix(name, "_R") || strings.HasPrefix(name, "___Z")
}
