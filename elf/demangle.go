package elf

import (
	"strings"

	"github.com/ianlancetaylor/demangle"
)

const (
	maxMangled    = 4096 // bytes of a name that is demangled; longer ones stay raw
	demangledBits = 12
	maxDemangled  = 1 << demangledBits // bytes of a demangled name; a longer one is cut and ends with …
)

// Demangle returns the name as its author wrote it: C++ (Itanium ABI), Rust
// legacy (without the hash) and v0. What a compiler appended (.cold, .part.0,
// .constprop.1) follows as [clone .cold]; the .llvm.123 of a promoted Rust
// function is dropped. A name that is not mangled, or too long, is returned as it is.
func Demangle(name string) string {
	if len(name) > maxMangled || !mangled(name) {
		return name
	}
	base, suffix := name, ""
	if i := rustSuffix(name); i >= 0 {
		base, suffix = name[:i], name[i:]
	}
	out, err := demangle.ToString(base, demangle.MaxLength(demangledBits))
	if err != nil || out == "" { // a Rust name of nothing but its hash
		return name
	}
	if len(out) >= maxDemangled {
		out = strings.ToValidUTF8(out[:maxDemangled], "") + "…"
	}
	if suffix != "" && !strings.HasPrefix(suffix, ".llvm.") {
		out += " [clone " + suffix + "]"
	}
	return out
}

// mangled tells whether a name has the form that Demangle knows.
func mangled(name string) bool {
	return strings.HasPrefix(name, "_Z") || strings.HasPrefix(name, "___Z") || strings.HasPrefix(name, "_R")
}

// rustSuffix returns where the appended part of a Rust name begins, -1 when there
// is none. In C++ names the demangler sees to it.
func rustSuffix(name string) int {
	if strings.HasPrefix(name, "_R") {
		return strings.IndexByte(name, '.')
	}
	// Legacy: _ZN … 17h, 16 digits, E.
	i := strings.LastIndex(name, "E.")
	if i < 19 || name[i-19:i-16] != "17h" {
		return -1
	}
	return i + 1
}
