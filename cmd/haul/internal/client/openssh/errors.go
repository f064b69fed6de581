package openssh

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/crypto/ssh"
)

// These are the classes of errors, for errors.Is. All other errors come from the network or the
// context.
var (
	ErrConfig  = errors.New("bad SSH configuration")
	ErrHostKey = errors.New("host key not trusted")
	ErrAuth    = errors.New("permission denied")
	ErrRefused = errors.New("connection refused in words") // the class of [RefusedError]
)

// A ConfigError reports a setting that cannot be used. It is an [ErrConfig].
type ConfigError struct {
	File string // empty if the setting is not from a file
	Line int    // number of the line, from 1; 0 means the whole file
	Err  error
}

// Error returns the reason, after the position as file:line.
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

// A KnownKey is a host key in a known_hosts file.
type KnownKey struct {
	Key  ssh.PublicKey
	File string
	Line int // number of the line, from 1
}

// String returns the position, type and fingerprint of the key.
func (k KnownKey) String() string {
	return fmt.Sprintf("%s:%d knows %s %s", k.File, k.Line, k.Key.Type(), ssh.FingerprintSHA256(k.Key))
}

// A Fault is the reason why a host key is not accepted.
type Fault int

// These are the faults that a host key can have.
const (
	Unknown Fault = iota // the host has no known key, and the user or the policy has not accepted this one
	Changed              // the host has other known keys
	Revoked              // the key, or the authority that signed it, is marked as revoked
	Weak                 // the key is too short, or signed with a forbidden algorithm
)

// A HostKeyError reports a host key that was not accepted. It is an [ErrHostKey].
type HostKeyError struct {
	Host  string        // the host's name in known_hosts
	Key   ssh.PublicKey // the key that the server has shown
	Fault Fault
	Known []KnownKey // the host's known keys, or the entries that revoke the key
	Err   error      // further details; may be nil
}

// Error says what is wrong, where the known keys are, and what the user can do.
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

// An AuthError reports a failed login. It is an [ErrAuth].
type AuthError struct {
	User, Host string
	Allowed    []string // methods that the server would still accept
	Tried      []string // keys and methods that were offered to the server, in order
	Notes      []string // reasons why other keys and methods were not offered
	Unasked    bool     // there was no user to ask for a password, so the error is an [ErrBatch] too
	Err        error    // further details; may be nil
}

// Error says which keys and methods were tried, and why others were not.
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

// A RefusedError holds the text that a server sent in place of its version before it closed the
// connection, for example because of a penalty or of too many connections. It is an [ErrRefused].
type RefusedError struct {
	Host  string
	Words string // the server's text, safe to print
	Err   error  // the error with which the handshake failed
}

// Error quotes the server's text.
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

// maxServerText is the maximum length of a text from a server, in bytes. Longer texts are cut.
const maxServerText = 8 << 10

// printable makes a server's text safe for a terminal: it replaces control characters and
// characters that change the direction of text, and bounds the length. Line breaks and tabs stay.
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

// A printableError wraps an error whose text may contain a peer's words. Its own text is safe to
// print.
type printableError struct{ err error }

func (e printableError) Error() string { return printable(e.err.Error()) }
func (e printableError) Unwrap() error { return e.err }

// ErrBatch is returned in place of an answer if there is no user to ask.
var ErrBatch = errors.New("nobody to ask")
