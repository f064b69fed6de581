package serve

import "fmt"

// A UsageError is a mistake in the configuration.
type UsageError struct {
	// Setting is the name of the setting that is wrong, as the flags of "haul serve"
	// have it, without dashes: "max-upload". It is "" if no single one is.
	Setting string

	Err error
}

// Error names the setting as a flag.
func (e UsageError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e UsageError) Unwrap() error { return e.Err }

// usagef returns a mistake in a setting.
func usagef(setting, format string, args ...any) error {
	return UsageError{setting, fmt.Errorf(format, args...)}
}

// A ListenError says that the server could not open its sockets.
type ListenError struct{ Err error }

// Error implements error.
func (e ListenError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e ListenError) Unwrap() error { return e.Err }

// A LocalError is a failure to read or write a file of this machine.
type LocalError struct{ Err error }

// Error implements error.
func (e LocalError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e LocalError) Unwrap() error { return e.Err }
