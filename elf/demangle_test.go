package elf

import (
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestDemangle(t *testing.T) {
	for raw, want := range map[string]string{
		"":                                       "",
		"main":                                   "main",
		"runtime.main":                           "runtime.main",
		"_Z":                                     "_Z",
		"_Znot_mangled":                          "_Znot_mangled",
		"_ZN4demo3hotEi":                         "demo::hot(int)",
		"_ZN4demo3hotEi.cold":                    "demo::hot(int) [clone .cold]",
		"_ZN4demo3hotEi.part.0":                  "demo::hot(int) [clone .part.0]",
		"_ZN4demo3hotEi.constprop.0.isra.1":      "demo::hot(int) [clone .constprop.0] [clone .isra.1]",
		"_ZN4demo3hotEi.llvm.123":                "demo::hot(int) [clone .llvm.123]",
		"_ZN4demo12_GLOBAL__N_112hidden_blockEi": "demo::(anonymous namespace)::hidden_block(int)",
		"_ZNK4demo3BoxIlEclEl":                   "demo::Box<long>::operator()(long) const",
		"_ZZ4mainENKUliE_clEi":                   "main::{lambda(int)#1}::operator()(int) const",
		"_ZZ4mainENUliE_4_FUNEi":                 "main::{lambda(int)#1}::_FUN(int)",
		"_ZNSt6vectorIiSaIiEE9push_backERKi":     "std::vector<int, std::allocator<int> >::push_back(int const&)",
		"_ZTV3foo":                               "vtable for foo",
		// Rust, legacy: without the hash.
		"_ZN4core3fmt5write17h0123456789abcdefE":                                 "core::fmt::write",
		"_ZN4core3fmt5write17h0123456789abcdefE.llvm.42":                         "core::fmt::write",
		"_ZN4core3fmt5write17h0123456789abcdefE.cold":                            "core::fmt::write [clone .cold]",
		"_ZN41_$LT$Test$u20$as$u20$core..fmt..Debug$GT$3fmt17h0123456789abcdefE": "<Test as core::fmt::Debug>::fmt",
		// Rust v0.
		"_RNvCs1234_7mycrate3foo":           "mycrate::foo",
		"_RNvCs1234_7mycrate3foo.llvm.9999": "mycrate::foo",
		"_RNvCs1234_7mycrate3foo.cold":      "mycrate::foo [clone .cold]",
		"_Rxyz":                             "_Rxyz",
		"_Z" + strings.Repeat("9", 5000):    "_Z" + strings.Repeat("9", 5000),
	} {
		if got := Demangle(raw); got != want {
			t.Errorf("%s: %q, want %q", raw, got, want)
		}
	}
}

// Few bytes that stand for very many: every level names the one before ten times.
func TestDemangleExpansion(t *testing.T) {
	raw := "_Z1f1aIiiE"
	for i := range 30 {
		raw += "1bI" + strings.Repeat("S"+strings.ToUpper(strconv.FormatInt(int64(i), 36))+"_", 10) + "E"
	}
	got := Demangle(raw)
	if len(got) > maxDemangled+len("…") || !strings.HasSuffix(got, "…") {
		t.Errorf("%d bytes, ending %q; want %d and a mark that it is cut", len(got), got[max(0, len(got)-20):], maxDemangled)
	}
}

func TestUnversioned(t *testing.T) {
	for raw, want := range map[string]string{
		"memcpy@@GLIBC_2.14": "memcpy", "memcpy@GLIBC_2.2.5": "memcpy", "puts@plt": "puts@plt", "plain": "plain", "@odd": "@odd", "": "",
	} {
		if got := unversioned(raw); got != want {
			t.Errorf("%s: %q, want %q", raw, got, want)
		}
	}
}

func FuzzDemangle(f *testing.F) {
	for _, s := range []string{
		"_ZN4demo3hotEi.cold", "_ZNK4demo3BoxIlEclEl", "_ZZ4mainENKUliE_clEi", "_ZNSt6vectorIiSaIiEE9push_backERKi",
		"_ZN4core3fmt5write17h0123456789abcdefE.llvm.42", "_RNvCs1234_7mycrate3foo.cold", "_RINvNtC3std3mem8align_ofjdE",
		"_ZN41_$LT$Test$u20$as$u20$core..fmt..Debug$GT$3fmt17h0123456789abcdefE", "_Z1fIJiS_S_EEvDpT_", "___Z3foo_block_invoke_2",
		"_ZNSt3__1lsINS_11char_traitsIcEEEERNS_13basic_ostreamIcT_EES6_PKc", "_RNvB_B_", "_Z1fU8__vectorfE", "_ZL3fooILi0EEvT_",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		got := Demangle(raw)
		if got != raw && len(got) > maxDemangled+len("…")+len(raw)+len(" [clone ]") {
			t.Fatalf("%d bytes of %d", len(got), len(raw))
		}
		if raw != "" && got == "" {
			t.Fatal("the name is lost")
		}
		if utf8.ValidString(raw) && !utf8.ValidString(got) {
			t.Fatalf("%q becomes %q", raw, got)
		}
		if !mangled(raw) && got != raw {
			t.Fatalf("%q becomes %q", raw, got)
		}
	})
}
