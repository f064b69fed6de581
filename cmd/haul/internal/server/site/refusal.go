package site

import (
	"fmt"
	"io/fs"
)

// maxMessage is how long a text for a client may be, in bytes.
const maxMessage = 128

// A Refusal is a request that the site refuses. To errors.Is it is an
// [fs.ErrPermission], and what its Reason is.
type Refusal struct {
	// Message is for the client: printable ASCII, no more than 128 bytes.
	// It reveals nothing that the client does not know already or may know.
	Message string

	// Reason is for the log. It may be nil.
	Reason error
}

// Error returns the message and the reason. It is for the log, which says besides that this is a
// refusal.
func (r *Refusal) Error() string {
	if r.Reason == nil {
		return r.Message
	}
	return fmt.Sprintf("%s: %v", r.Message, r.Reason)
}

// ForClient returns the message, so that a package that does not know this one
// can find it by errors.As with an interface.
func (r *Refusal) ForClient() string { return r.Message }

// Unwrap returns fs.ErrPermission and the reason.
func (r *Refusal) Unwrap() []error {
	if r.Reason == nil {
		return []error{fs.ErrPermission}
	}
	return []error{fs.ErrPermission, r.Reason}
}

// presentable makes a text fit for a client: it may hold parts of a name that
// some client made up.
func presentable(s string) string {
	b := []byte(s)
	if len(b) > maxMessage {
		b = b[:maxMessage]
	}
	for i, c := range b {
		if c < ' ' || c > '~' {
			b[i] = '?'
		}
	}
	return string(b)
}
