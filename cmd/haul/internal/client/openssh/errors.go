package openssh

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/crypto/ssh"
)

// The classes of errors. All other errors come from the network or from the
// context.
var (
	ErrConfig  = errors.New("bad SSH configuration")
	ErrHostKey = errors.New("host key not trusted")
	ErrAuth    = errors.New("permission denied")
	ErrRefused = errors.New("connection refused in words") // see RefusedError
)

// A ConfigError is a setting that cannot be used. It is an [ErrConfig].
type ConfigError struct {
	File string // empty for what did not come from a file
	Line int    // from 1; 0 concerns the file as a whole
	Err  error
}

// Error begins with the place, as file:line.
func (e *ConfigError) Error() string {
	switch {
	case e.File == "":
		return "SSH configuration: " + e.Err.Error()
	case e.Line == 0:
		return e.File + ": " + e.Err.Error()
	}
	return fmt.Sprintf("%s:%d: %v", e.File, e.Line, e.Err)
}

// Unwrap returns [ErrConfig] and the reason.
func (e *ConfigError) Unwrap() []error { return []error{ErrConfig, e.Err} }

func configErrorf(format string, args ...any) error {
	return &ConfigError{Err: fmt.Errorf(format, args...)}
}

// A KnownKey is a key of a known_hosts file.
type KnownKey struct {
	Key  ssh.PublicKey
	File string
	Line int // from 1
}

// String says where the key is, and which.
func (k KnownKey) String() string {
	return fmt.Sprintf("%s:%d knows %s %s", k.File, k.Line, k.Key.Type(), ssh.FingerprintSHA256(k.Key))
}

// A Fault is what is wrong with a host key.
type Fault int

// The faults of a host key.
const (
	Unknown Fault = iota // the host has none yet, and this one was not accepted
	Changed              // the host has others
	Revoked              // it, or the authority that signed it, must not be used
	Weak                 // too short, or signed by an algorithm not allowed
)

// A HostKeyError is a host key that was not accepted. It is an [ErrHostKey].
type HostKeyError struct {
	Host  string        // as it is looked up in known_hosts
	Key   ssh.PublicKey // what the server has
	Fault Fault
	Known []KnownKey // what is known of the host instead, or revokes the key
	Err   error      // what else there is to say
}

// Error says what is wrong, where the known keys are, and what to do.
func (e *HostKeyError) Error() string {
	var b strings.Builder
	offer := fmt.Sprintf("%s %s", e.Key.Type(), ssh.FingerprintSHA256(e.Key))
	switch e.Fault {
	case Unknown:
		fmt.Fprintf(&b, "host key of %s is not known: it has %s", e.Host, offer)
	case Changed:
		fmt.Fprintf(&b, "HOST KEY OF %s HAS CHANGED: it has %s", e.Host, offer)
		for _, k := range e.Known {
			fmt.Fprintf(&b, ", but %s", k)
		}
		b.WriteString("; either the key was replaced or the connection is intercepted")
		if len(e.Known) > 0 {
			fmt.Fprintf(&b, "; if you know that it was replaced, remove the old one: ssh-keygen -R '%s' -f '%s'", e.Host, e.Known[0].File)
		}
	case Revoked:
		fmt.Fprintf(&b, "host key of %s is revoked: %s", e.Host, offer)
		for _, k := range e.Known {
			fmt.Fprintf(&b, ", by %s:%d", k.File, k.Line)
		}
	case Weak:
		fmt.Fprintf(&b, "host key of %s is too weak: %s", e.Host, offer)
	}
	if e.Err != nil {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	return b.String()
}

// Unwrap returns [ErrHostKey] and Err.
func (e *HostKeyError) Unwrap() []error { return classed(ErrHostKey, e.Err) }

// An AuthError is a login that failed. It is an [ErrAuth].
type AuthError struct {
	User, Host string
	Allowed    []string // methods with which the server would continue
	Tried      []string // what it was offered, in order
	Notes      []string // why something was not offered
	Unasked    bool     // there was no user to ask for a password: it is an [ErrBatch] too
	Err        error    // what else there is to say
}

// Error says what was tried, and why not more.
func (e *AuthError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "log in as %s@%s: permission denied", printable(e.User), e.Host)
	if len(e.Allowed) > 0 {
		fmt.Fprintf(&b, " (server takes %s)", printable(strings.Join(e.Allowed, ", ")))
	}
	if len(e.Tried) > 0 {
		fmt.Fprintf(&b, "; tried %s", strings.Join(e.Tried, ", "))
	}
	for _, n := range e.Notes {
		fmt.Fprintf(&b, "; %s", n)
	}
	if e.Err != nil {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	return b.String()
}

// Unwrap returns [ErrAuth], [ErrBatch] if there was no user to ask, and Err.
func (e *AuthError) Unwrap() []error {
	kinds := classed(ErrAuth, e.Err)
	if e.Unasked {
		kinds = append(kinds, ErrBatch)
	}
	return kinds
}

// A RefusedError is what a server says in place of its version, before it ends the
// connection: a penalty, or too many connections as they are. It is an
// [ErrRefused].
type RefusedError struct {
	Host  string
	Words string // safe to print
	Err   error  // how the connection ended
}

// Error quotes the server.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("connect to %s: the server says %q, and no more: %v", e.Host, e.Words, e.Err)
}

// Unwrap returns [ErrRefused] and Err.
func (e *RefusedError) Unwrap() []error { return classed(ErrRefused, e.Err) }

func classed(class, err error) []error {
	if err == nil {
		return []error{class}
	}
	return []error{class, err}
}

// maxServerText bounds what a server may say at once, in bytes.
const maxServerText = 8 << 10

// printable makes a server's text safe for a terminal: no control characters,
// nothing that turns the direction of writing, and an end. Line breaks and
// tabs stay.
func printable(s string) string {
	cut := len(s) > maxServerText
	if cut {
		s = s[:maxServerText]
	}
	clean := func(r rune) bool { return unicode.IsPrint(r) || r == '\n' || r == '\t' }
	if !cut && utf8.ValidString(s) && strings.IndexFunc(s, func(r rune) bool { return !clean(r) }) < 0 {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == '\r' && strings.HasPrefix(s[i+1:], "\n"):
		case r == utf8.RuneError && n == 1, !clean(r) && r < utf8.RuneSelf:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case !clean(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
		i += n
	}
	if cut {
		b.WriteString("…")
	}
	return b.String()
}

// A printableError is an error with a peer's words in it.
type printableError struct{ err error }

func (e printableError) Error() string { return printable(e.err.Error()) }
func (e printableError) Unwrap() error { return e.err }

// ErrBatch is the answer to every question where there is no user to ask.
var ErrBatch = errors.New("nobody to ask")
