package failure

import (
	"errors"
	"fmt"
	"strings"
)

// A Flag names a setting in a message, as the command line does but without dashes:
// "max-upload". The setting of the arguments, which has no flag, is [Dirs].
type Flag string

// Dirs is the setting of the arguments of "haul serve".
const Dirs Flag = "dirs"

// String returns the flag as people write it: "--max-upload".
func (f Flag) String() string {
	if f == Dirs {
		return string(f)
	}
	return "--" + string(f)
}

// A message is an error whose text can be written with other names for its flags.
type message struct {
	format string
	args   []any
	err    error // of [fmt.Errorf]
}

// Text returns an error as [fmt.Errorf] does. [In] writes it with other names for the arguments
// that are a [Flag].
func Text(format string, args ...any) error {
	return &message{format, args, fmt.Errorf(format, args...)}
}

// Error returns the text with the names of flags.
func (m *message) Error() string { return m.err.Error() }

// Unwrap returns the error of [fmt.Errorf], which wraps others.
func (m *message) Unwrap() error { return m.err }

// In returns the text of an error of this package in which each [Flag] is written as name has
// it. The texts of errors that it wraps, if they are of this package too, are written in the
// same way. Any other error has its own text.
func In(err error, name func(Flag) string) string {
	switch e := err.(type) { //nolint:errorlint // only the outermost error has the whole text
	case *Error:
		return In(e.Err, name)
	case *message:
		args := make([]any, len(e.args))
		for i, arg := range e.args {
			switch arg := arg.(type) {
			case Flag:
				args[i] = name(arg)
			case error:
				args[i] = errors.New(In(arg, name))
			default:
				args[i] = arg
			}
		}
		return fmt.Errorf(e.format, args...).Error()
	}
	if several := Joined(err); several != nil {
		var texts []string
		for _, one := range several {
			texts = append(texts, In(one, name))
		}
		return strings.Join(texts, "\n")
	}
	return err.Error()
}

// Flags returns the flags that In would name.
func Flags(err error) (all []Flag) {
	In(err, func(f Flag) string {
		all = append(all, f)
		return ""
	})
	return all
}
