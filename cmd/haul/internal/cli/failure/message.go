package failure

import (
	"errors"
	"fmt"
	"strings"
)

// A Flag names a setting in a message, in the format of its flag without dashes: "max-upload". [Dirs]
// stands for the arguments, which have no flag.
type Flag string

// Dirs stands for the arguments of "haul serve", which name directories.
const Dirs Flag = "dirs"

// String returns the flag as users type it: "--max-upload". It returns [Dirs] unchanged.
func (f Flag) String() string {
	if f == Dirs {
		return string(f)
	}
	return "--" + string(f)
}

// A message is an error whose text names settings by their flags, but can be rewritten to name them
// in another way.
type message struct {
	format string
	args   []any
	err    error // the result of fmt.Errorf, which names settings by their flags
}

// Text returns an error like [fmt.Errorf]. If arguments are of type [Flag], [In] can replace their
// names in the text.
func Text(format string, args ...any) error {
	return &message{format, args, fmt.Errorf(format, args...)}
}

// Error returns the text with the flags as users type them.
func (m *message) Error() string { return m.err.Error() }

// Unwrap returns the error of [fmt.Errorf], which wraps the arguments.
func (m *message) Unwrap() error { return m.err }

// In returns the text of an error of this package, with each [Flag] in it replaced by the result of
// the function `name`. It does the same in wrapped errors of this package. Other errors keep their
// text.
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

// Flags returns the flags that occur in the text of an error of this package.
func Flags(err error) (all []Flag) {
	In(err, func(f Flag) string {
		all = append(all, f)
		return ""
	})
	return all
}
