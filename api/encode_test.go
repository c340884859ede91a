package api

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"procinsh/proc"
	"procinsh/watch"
)

// encodingJSON is what encoding/json writes without its escapes for HTML.
func encodingJSON(t testing.TB, v any) string {
	t.Helper()
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func same(t *testing.T, got []byte, want any) {
	t.Helper()
	if w := encodingJSON(t, want); string(got) != w {
		i := 0
		for i < len(got) && i < len(w) && got[i] == w[i] {
			i++
		}
		t.Fatalf("differs from encoding/json at byte %d:\ngot  …%.120s\nwant …%.120s", i, got[max(0, i-20):], w[max(0, i-20):])
	}
}

func TestEncodersAgreeWithEncodingJSON(t *testing.T) {
	inOneGoroutine(t)
	wants := []watch.ListWant{{}, {Maps: true}, {IO: true}, {Maps: true, IO: true}}
	for seed := range uint64(400) {
		r := newRandom(seed)
		want := wants[seed%4]

		row := r.row()
		same(t, appendSummary(nil, &row, want), wireSummary(&row, want))
		m := r.mapping()
		same(t, appendMapping(nil, &m), wireMapping(&m))
		o := r.observation()
		same(t, appendObservation(nil, o), wireObservation(o))
		d := r.descriptor()
		same(t, appendDescriptor(nil, &d), wireDescriptor(&d))

		id, at := r.id(), r.at()
		a := mapsReading{id: id, maps: many(r, 5, r.mapping), at: at, truncated: r.yes(), err: r.err()}
		if r.yes() {
			a.rollup = &proc.Rollup{RSS: r.u64(), PSS: r.u64(), Private: r.u64(), Swap: r.u64()}
		}
		wantMaps := MapsAnswer{ProcessID: identity(id), Maps: wireMappings(a.maps), Rollup: wireRollup(a.rollup), Error: errorText(a.err), Truncated: a.truncated}
		if a.err == nil {
			ms := at.UnixMilli()
			wantMaps.CapturedAt = &ms
		}
		same(t, a.append(nil), wantMaps)

		ds := &proc.Descriptors{Entries: many(r, 4, r.descriptor), Warnings: r.texts()}
		wantFDs := DescriptorsAnswer{ProcessID: identity(id), CapturedAt: at.UnixMilli(), Entries: []Descriptor{}, Warnings: nonNil(ds.Warnings)}
		for i := range ds.Entries {
			wantFDs.Entries = append(wantFDs.Entries, wireDescriptor(&ds.Entries[i]))
		}
		same(t, appendDescriptors(nil, id, ds, at), wantFDs)
		hs := &proc.Holders{List: many(r, 4, r.holder), Warnings: r.texts()}
		wantHolders := HoldersAnswer{CapturedAt: at.UnixMilli(), Source: "text", Holders: []Holder{}, Warnings: nonNil(hs.Warnings)}
		for i := range hs.List {
			wantHolders.Holders = append(wantHolders.Holders, wireHolder(&hs.List[i]))
		}
		same(t, appendHolders(nil, hs, at), wantHolders)
	}
}

func TestAppendMemory(t *testing.T) {
	id, at := proc.ID{PID: 5, StartTicks: 6}, time.UnixMilli(7)
	for _, n := range []int{0, 1, 255, 256} {
		data := make([]byte, n)
		for i := range data {
			data[i] = byte(i)
		}
		var hex strings.Builder
		for _, c := range data {
			hex.WriteByte("0123456789abcdef"[c>>4])
			hex.WriteByte("0123456789abcdef"[c&15])
		}
		same(t, appendMemory(nil, id, math.MaxUint64-300, 256, data, at),
			MemoryAnswer{identity(id), "0xfffffffffffffed3", 256, hex.String(), n < 256, 7})
	}
}

// The event is sent in pieces that viewers share; together they are one line.
func TestObservationParts(t *testing.T) {
	for seed := range uint64(200) {
		r := newRandom(seed)
		s := r.processState()
		for _, withMaps := range []bool{true, false} {
			var text []byte
			for _, p := range observationParts(s, withMaps, false) {
				text = append(text, p.text...)
			}
			data, ok := bytes.CutPrefix(text, []byte("event: observation\ndata: "))
			data, end := bytes.CutSuffix(data, []byte("\n\n"))
			if !ok || !end || bytes.IndexByte(data, '\n') >= 0 {
				t.Fatalf("no event of one data line: %q", text)
			}
			same(t, data, wireObservationEvent(s, withMaps))
		}
	}
}

func TestProcessesOrder(t *testing.T) {
	row := func(pid int32, cpu proc.Opt[float64]) watch.ListRow {
		return watch.ListRow{Row: proc.Row{ID: proc.ID{PID: pid}}, CPUPercent: cpu}
	}
	rows := []watch.ListRow{row(1, proc.Opt[float64]{}), row(2, proc.Some(0.0)), row(3, proc.Some(5.0)), row(4, proc.Some(99.5)), row(5, proc.Some(5.0))}
	var got []ProcessSummary
	if err := json.Unmarshal(appendProcesses(nil, rows, watch.ListWant{}, whole), &got); err != nil {
		t.Fatal(err)
	}
	want := []int32{4, 3, 5, 1, 2}
	for i, pid := range want {
		if got[i].Identity.PID != pid {
			t.Fatalf("place %d is PID %d, want %d", i, got[i].Identity.PID, pid)
		}
	}
	if rows[0].ID.PID != 1 || rows[4].ID.PID != 5 {
		t.Error("the shared rows were sorted")
	}
}

// A delta applied to its base gives the state, for states that differ in every way
// that two scans can differ.
func TestDeltaGivesTheState(t *testing.T) {
	inOneGoroutine(t)
	for seed := range uint64(300) {
		r := newRandom(seed)
		want := watch.ListWant{Maps: seed&1 > 0, IO: seed&2 > 0}
		base := &watch.ListState{Sequence: 7, CapturedAt: r.at()}
		for pid := int32(1); pid < 40; pid += 1 + r.Int32N(3) {
			row := r.row()
			row.ID.PID = pid
			base.Rows = append(base.Rows, row)
		}
		next := &watch.ListState{Sequence: 8, CapturedAt: r.at()}
		for _, row := range base.Rows {
			switch r.IntN(7) {
			case 0: // gone
				continue
			case 1: // another process has its PID
				row.ID.StartTicks++
			case 2: // changed
				row.RSS++
			case 3:
				row.ReadRate = opt(r, r.float)
			case 4:
				row.Maps = r.summaryOfMaps()
			case 5: // what no summary shows
				row.CPUTicks++
				row.At++
			}
			next.Rows = append(next.Rows, row)
			if r.IntN(5) == 0 {
				fresh := r.row()
				fresh.ID.PID = row.ID.PID + 1
				next.Rows = append(next.Rows, fresh)
			}
		}
		next.Rows = distinct(next.Rows)

		var d ProcessesDelta
		text := appendProcessesDelta(nil, next, base, want)
		if err := json.Unmarshal(text, &d); err != nil {
			t.Fatalf("%v in %s", err, text)
		}
		if d.Sequence != 8 || d.BaseSequence != 7 || d.CapturedAt != next.CapturedAt.UnixMilli() {
			t.Fatalf("head is %+v", d)
		}
		// What was decoded once has U+FFFD itself where the first text had its escape.
		canonical := func(s ProcessSummary) string {
			var again ProcessSummary
			if err := json.Unmarshal([]byte(encodingJSON(t, s)), &again); err != nil {
				t.Fatal(err)
			}
			return encodingJSON(t, again)
		}
		have := map[Identity]string{}
		maps := map[Identity]*MapSummary{}
		for i := range base.Rows {
			s := wireSummary(&base.Rows[i], want)
			have[s.Identity], maps[s.Identity] = canonical(s), s.MapSummary
		}
		for _, id := range d.Removed {
			if _, ok := have[id]; !ok {
				t.Fatalf("%v is removed, but was not there", id)
			}
			delete(have, id)
			delete(maps, id)
		}
		last := int32(0)
		for _, s := range d.Changed {
			if s.Identity.PID <= last {
				t.Fatalf("changed is not by PID: %d after %d", s.Identity.PID, last)
			}
			last = s.Identity.PID
			before := have[s.Identity]
			if s.MapSummary == nil { // unchanged
				s.MapSummary = maps[s.Identity]
			}
			if have[s.Identity] = canonical(s); have[s.Identity] == before && s.MapSummary != nil {
				continue // the same JSON from another pointer costs a row, no more
			} else if have[s.Identity] == before {
				t.Fatalf("PID %d is among the changed, but its JSON is the same", s.Identity.PID)
			}
		}
		for i := range next.Rows {
			s := wireSummary(&next.Rows[i], want)
			if s.MapSummary == nil { // became unreadable: the last known one stays
				s.MapSummary = maps[s.Identity]
			}
			if got := have[s.Identity]; got != canonical(s) {
				t.Fatalf("seed %d PID %d:\ngot  %s\nwant %s", seed, s.Identity.PID, got, canonical(s))
			}
			delete(have, s.Identity)
		}
		if len(have) > 0 {
			t.Fatalf("%d processes too many after the delta", len(have))
		}
	}
}

func distinct(rows []watch.ListRow) []watch.ListRow {
	out := rows[:0]
	for _, r := range rows {
		if len(out) == 0 || out[len(out)-1].ID.PID < r.ID.PID {
			out = append(out, r)
		}
	}
	return out
}

func TestAppendFloatUnknown(t *testing.T) {
	for _, f := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		if got := string(appendFloat(nil, f)); got != "null" {
			t.Errorf("%v is %s, want null", f, got)
		}
	}
}

func FuzzAppendString(f *testing.F) {
	for _, s := range alphabet {
		f.Add("x" + s + "y")
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := appendString(nil, s)
		if want := encodingJSON(t, s); string(got) != want {
			t.Fatalf("%q is %s, want %s", s, got, want)
		}
		if len(got) > 6*len(s)+2 {
			t.Fatalf("%d bytes became %d", len(s), len(got))
		}
	})
}

func FuzzAppendFloat(f *testing.F) {
	for _, v := range []float64{0, math.Copysign(0, -1), 1e-6, 9.99e-7, 1e21, 9.9e20, 1e-9, 1e-10, 1e100, math.MaxFloat64, math.SmallestNonzeroFloat64, 0.1, 33.3} {
		f.Add(math.Float64bits(v))
	}
	f.Fuzz(func(t *testing.T, bits uint64) {
		v := math.Float64frombits(bits)
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return // JSON has no such number
		}
		if got, want := string(appendFloat(nil, v)), encodingJSON(t, v); got != want {
			t.Fatalf("%v is %s, want %s", v, got, want)
		}
	})
}
