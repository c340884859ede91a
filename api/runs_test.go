package api

import (
	"reflect"
	"strings"
	"testing"

	"procinsh/run"
)

// What package run gives has the shape of the contract.
func TestRunsContract(t *testing.T) {
	for _, pair := range [][2]any{
		{Run{}, run.Status{}}, {RunProcesses{}, run.Members{}}, {RunLog{}, run.Log{}}, {RunWritten{}, run.Written{}}, {RunStopped{}, run.Stopped{}},
		{RunTaken{}, run.Taken{}}, {Scope{}, run.Scope{}}, {RunsRemoved{}, run.Removed{}}, {RunCapabilities{}, run.Capabilities{}}, {RunEvent{}, run.Event{}},
	} {
		sameShape(t, reflect.TypeOf(pair[0]).Name(), reflect.TypeOf(pair[0]), reflect.TypeOf(pair[1]))
	}
}

func sameShape(t *testing.T, where string, want, got reflect.Type) {
	if want.Kind() != got.Kind() {
		t.Errorf("%s: %s, want %s", where, got, want)
		return
	}
	switch want.Kind() {
	case reflect.Pointer, reflect.Slice:
		sameShape(t, where, want.Elem(), got.Elem())
	case reflect.Struct:
		fields := map[string]reflect.Type{}
		for i := range got.NumField() {
			if f := got.Field(i); f.IsExported() {
				fields[f.Tag.Get("json")] = f.Type
			}
		}
		for i := range want.NumField() {
			f := want.Field(i)
			name := f.Tag.Get("json")
			if fields[name] == nil {
				t.Errorf("%s.%s is missing", where, name)
				continue
			}
			sameShape(t, where+"."+name, f.Type, fields[name])
			delete(fields, name)
		}
		for name := range fields {
			t.Errorf("%s.%s is not in the contract", where, name)
		}
	}
}

// Every code has a status.
func TestRunCodes(t *testing.T) {
	for code, status := range runStatus {
		if e := statusOf(&run.Error{Code: code, Message: "m"}); e.status != status || e.code != code || e.message != "m" {
			t.Errorf("%s: %+v", code, e)
		}
	}
	if e := statusOf(run.ErrFull); e.status != 429 || e.retryAfter == 0 {
		t.Errorf("got %+v", e)
	}
}

// Without --runs every route is refused, whatever is asked.
func TestRunsDisabled(t *testing.T) {
	seen := 0
	for _, r := range routes {
		if !strings.HasPrefix(r.pattern, "/api/runs") && !strings.HasPrefix(r.pattern, "/api/scopes") {
			continue
		}
		seen++
		if err := r.handle(&Server{}, nil, nil); err != errRunsDisabled {
			t.Errorf("%s %s: %v", r.method, r.pattern, err)
		}
	}
	if seen != 18 {
		t.Errorf("%d routes of runs, want 18", seen)
	}
}
