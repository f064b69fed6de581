package sftp

import "fmt"

// A panicError is what was recovered of a panic.
type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

// Unwrap returns the value if that is an error.
func (e *panicError) Unwrap() error {
	err, _ := e.value.(error)
	return err
}
