// Package failure has the kinds of errors that end a command, whatever package they
// come from. Command haul makes exit codes of them.
package failure

import (
	"errors"
	"io"
	"reflect"
)

// A Kind is a kind of errors: errors.Is(err, failure.Local) reports whether one of the
// errors in err is of a file of this machine.
type Kind string

// The kinds.
const (
	Usage  Kind = "wrong use"      // a mistake on the command line, or in a configuration
	Local  Kind = "local failure"  // a file of this machine cannot be read or written
	Remote Kind = "remote failure" // a server cannot do something, or does not want to
	Dial   Kind = "no connection"  // nobody answers, or lets haul log in
	Listen Kind = "cannot listen"  // a server cannot open its sockets
	Said   Kind = "printed before" // the user has read of it, so that it only decides the exit code
)

// Error implements error, for [errors.Is].
func (k Kind) Error() string { return string(k) }

// Wrap returns an error of this kind, with the text of err; nil for nil.
func (k Kind) Wrap(err error) error {
	if err == nil {
		return nil
	}
	return &Error{Kind: k, Err: err}
}

// Errorf returns an error of this kind, as [Text] makes it.
func (k Kind) Errorf(format string, args ...any) error {
	return &Error{Kind: k, Err: Text(format, args...)}
}

// An Error is an error of a kind.
type Error struct {
	Kind Kind

	// Setting is the setting that is wrong; "" if no single one is.
	Setting Flag

	Err error
}

// Mistake returns a wrong use of a setting, as [Text] makes it.
func Mistake(setting Flag, format string, args ...any) error {
	return &Error{Kind: Usage, Setting: setting, Err: Text(format, args...)}
}

// InSetting adds to an error of this package the setting that names what failed, unless the
// error has one. It returns other errors as they are.
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

// Is reports whether target is the error's kind.
func (e *Error) Is(target error) bool { return target == e.Kind }

// A Note is no failure of its own: it is printed behind errors, and says what to do.
type Note string

// Error implements error.
func (n Note) Error() string { return string(n) }

// Reword returns an error in other words: it has that text, and is err besides.
func Reword(text string, err error) error { return &reworded{text, err} }

type reworded struct {
	text string
	err  error
}

func (e *reworded) Error() string { return e.text }
func (e *reworded) Unwrap() error { return e.err }

// joined is the type of several errors that have nothing else in common. Others
// that wrap more than one have a text of their own.
var joined = reflect.TypeOf(errors.Join(io.EOF))

// Joined returns the errors that [errors.Join] has joined; none for any other error.
func Joined(err error) []error {
	if reflect.TypeOf(err) != joined {
		return nil
	}
	return err.(interface{ Unwrap() []error }).Unwrap()
}
