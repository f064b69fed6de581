package site

import (
	"fmt"
	"io/fs"
)

// maxMessage is the longest text for a client, in bytes.
const maxMessage = 128

// A Refusal is the error of a request that the site refuses. For errors.Is it matches
// [fs.ErrPermission] as well as its Reason.
type Refusal struct {
	// Message is for the client: at most 128 bytes of printable ASCII. It reveals only facts that
	// the client knows or may know.
	Message string

	// Reason is for the log. It may be nil.
	Reason error
}

// Error returns the message and the reason. It is for the log, which already says that this is a
// refusal.
func (r *Refusal) Error() string {
	if r.Reason == nil {
		return r.Message
	}
	return fmt.Sprintf("%s: %v", r.Message, r.Reason)
}

// ForClient returns the message. Packages that do not import this one find it by errors.As with an
// interface.
func (r *Refusal) ForClient() string { return r.Message }

// Unwrap returns fs.ErrPermission and the reason.
func (r *Refusal) Unwrap() []error {
	if r.Reason == nil {
		return []error{fs.ErrPermission}
	}
	return []error{fs.ErrPermission, r.Reason}
}

// presentable turns a message into a form that a client may see. The message may contain parts of a
// name that a client has invented.
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
