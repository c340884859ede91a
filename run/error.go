package run

import (
	"errors"
	"fmt"
)

// Error is what a caller did wrong or met, with the code that the API answers.
type Error struct {
	Code    string `json:"code"`    // snake_case, one of those below
	Message string `json:"message"` // one sentence a person can act on
}

func (e *Error) Error() string { return e.Code + ": " + e.Message }

// The codes of an Error.
const (
	CodeInvalidID      = "invalid_run_id"
	CodeInvalidProcess = "invalid_process"
	CodeUnknownKey     = "unknown_key"
	CodeUnknownRoot    = "unknown_root"
	CodeInvalidCwd     = "invalid_cwd"
	CodeBadRequest     = "bad_request"
	CodeCommandDenied  = "command_not_allowed"
	CodeUserUnknown    = "run_user_unknown"
	CodeProtected      = "protected_process"
	CodeNotInRun       = "not_in_run"
	CodeNotFound       = "run_not_found"
	CodeNoProcess      = "process_not_found"
	CodeNoDirectory    = "directory_not_found"
	CodeExists         = "run_exists"
	CodeStale          = "stale_process"
	CodeActive         = "run_active"
	CodeEnded          = "run_ended"
	CodeStdinClosed    = "stdin_closed"
	CodeNoTerminal     = "no_terminal"
	CodeSpawnFailed    = "spawn_failed"
	CodeBusy           = "busy"
	CodeStopIncomplete = "stop_incomplete"
	CodeHelperGone     = "helper_gone"
	CodeHelperSilent   = "helper_silent"
)

func fail(code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// CodeOf returns the code of an Error in err, "" when it holds none.
func CodeOf(err error) string {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}
