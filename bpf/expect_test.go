package bpf

import "testing"

// What Expect says beforehand is what Open finds, on a kernel that refuses nothing
// else.
func TestExpect(t *testing.T) {
	got := Expect()
	if has, initial := mayLoad(); has && initial {
		if got.State == StateUnavailable && got.Reason != errNoBTF.Error() {
			t.Errorf("with the capabilities: %+v", got)
		}
		return
	}
	if got.State != StateUnavailable || got.Reason == "" {
		t.Errorf("without the capabilities: %+v", got)
	}
}
