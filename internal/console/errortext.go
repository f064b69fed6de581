package console

import (
	"errors"
	"io/fs"
)

// WithoutPath returns the cause of an [fs.PathError], for messages that name the
// operation and the path themselves. Other errors are returned unchanged.
func WithoutPath(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}
