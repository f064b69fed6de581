// Package failure defines the kinds of errors with which a command can fail, whatever package they
// come from. Command haul turns each kind into an exit code.
package failure

import (
	"errors"
	"io"
	"reflect"
)

// A Kind is a kind of error. Use it with errors.Is: for example, errors.Is(err, failure.Local)
// reports whether err is, or wraps, an error about a file of this machine.
type Kind string

// These are the kinds of errors that command haul turns into exit codes.
const (
	Usage  Kind = "wrong use"      // a mistake on the command line, or in a configuration
	Local  Kind = "local failure"  // a file of this machine cannot be read or written
	Remote Kind = "remote failure" // a server cannot or will not do something
	Dial   Kind = "no connection"  // no server answers, or it refuses the login
	Listen Kind = "cannot listen"  // a server cannot open its sockets
	// Said means that the user has read the message already, so the error only decides the exit
	// code.
	Said Kind = "printed before"
)

// Error implements error, for [errors.Is].
func (k Kind) Error() string { return string(k) }

// Wrap returns an error of this kind with the text of err, or nil if err is nil.
func (k Kind) Wrap(err error) error {
	if err == nil {
		return nil
	}
	return &Error{Kind: k, Err: err}
}

// Errorf returns an error of this kind, with the text that [Text] returns.
func (k Kind) Errorf(format string, args ...any) error {
	return &Error{Kind: k, Err: Text(format, args...)}
}

// An Error is an error with a kind.
type Error struct {
	Kind Kind

	// Setting is the setting that is wrong, or "" if no single setting is.
	Setting Flag

	Err error
}

// Mistake returns a usage error about a setting, with the text that [Text] returns.
func Mistake(setting Flag, format string, args ...any) error {
	return &Error{Kind: Usage, Setting: setting, Err: Text(format, args...)}
}

// InSetting returns err with the given setting, if err is an [Error] that names no setting yet. It
// returns other errors unchanged.
func InSetting(setting Flag, err error) error {
	of, ok := errors.AsType[*Error](err)
	if !ok || of.Setting != "" {
		return err
	}
	return &Error{Kind: of.Kind, Setting: setting, Err: err}
}

// Error returns the text of the cause.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is reports whether target is the kind of e. [errors.Is] calls it.
func (e *Error) Is(target error) bool { return target == e.Kind }

// A Note is advice that is joined to errors and printed after them. It is not a failure itself.
type Note string

// Error implements error.
func (n Note) Error() string { return string(n) }

// Reword returns an error with the given text that wraps err.
func Reword(text string, err error) error { return &reworded{text, err} }

type reworded struct {
	text string
	err  error
}

func (e *reworded) Error() string { return e.text }
func (e *reworded) Unwrap() error { return e.err }

// joined is the type of the errors that errors.Join returns. Other types of errors that wrap
// several errors have a text of their own, so they are printed as one error.
var joined = reflect.TypeOf(errors.Join(io.EOF))

// Joined returns the errors that [errors.Join] has joined to err, or nil if err is any other error.
func Joined(err error) []error {
	if reflect.TypeOf(err) != joined {
		return nil
	}
	return err.(interface{ Unwrap() []error }).Unwrap()
}
