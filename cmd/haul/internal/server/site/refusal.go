package site

import (
	"fmt"
	"io/fs"
)

// maxMessage is the maximum length of a message for a client, in bytes.
const maxMessage = 128

// A Refusal is the error for a request that the site refuses. errors.Is matches it with
// [fs.ErrPermission] and with its Reason.
type Refusal struct {
	// Message is for the client: at most 128 bytes of printable ASCII. It reveals only facts that
	// the client knows or may know.
	Message string

	// Reason is for the log. It may be nil.
	Reason error
}

// Error returns the message and the reason, for the log. It does not say "refused", because the log
// line says that already.
func (r *Refusal) Error() string {
	if r.Reason == nil {
		return r.Message
	}
	return fmt.Sprintf("%s: %v", r.Message, r.Reason)
}

// ForClient returns the message. Other packages can call it without importing this one: by
// errors.As, they look for an interface with this method.
func (r *Refusal) ForClient() string { return r.Message }

// Unwrap returns fs.ErrPermission and the reason.
func (r *Refusal) Unwrap() []error {
	if r.Reason == nil {
		return []error{fs.ErrPermission}
	}
	return []error{fs.ErrPermission, r.Reason}
}

// presentable turns a message into a text that is safe to send to a client. The message may contain
// parts of a name that a client has chosen.
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
