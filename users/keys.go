package users

import (
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
)

// The sizes of RSA keys. Smaller ones can be broken, and larger ones waste our CPU:
// checking a signature takes time with the square of the size.
const (
	minRSABits = 2048
	maxRSABits = 8192
)

// signatures are the algorithms that a login may be signed with, and so may a
// certificate. SHA-1 is not among them, which ssh-rsa means, and DSA is not.
var signatures = []string{
	ssh.KeyAlgoED25519, ssh.KeyAlgoSKED25519,
	ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521, ssh.KeyAlgoSKECDSA256,
	ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256,
}

// keyTypes are the types of keys that can be used, and certTypes those of
// certificates, which begin a line too.
var (
	keyTypes = []string{
		ssh.KeyAlgoED25519, ssh.KeyAlgoSKED25519,
		ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521, ssh.KeyAlgoSKECDSA256,
		ssh.KeyAlgoRSA,
	}
	certTypes = []string{
		ssh.CertAlgoED25519v01, ssh.CertAlgoSKED25519v01,
		ssh.CertAlgoECDSA256v01, ssh.CertAlgoECDSA384v01, ssh.CertAlgoECDSA521v01, ssh.CertAlgoSKECDSA256v01,
		ssh.CertAlgoRSAv01,
	}
)

// checkKey says why a key must not be used, by any user. It is called before
// the key verifies anything.
func checkKey(k ssh.PublicKey) error {
	if !slices.Contains(keyTypes, k.Type()) {
		return fmt.Errorf("keys of type %s are not accepted", k.Type())
	}
	c, ok := k.(ssh.CryptoPublicKey)
	if !ok {
		return fmt.Errorf("nothing is known of this key of type %s", k.Type())
	}
	if r, ok := c.CryptoPublicKey().(*rsa.PublicKey); ok {
		if bits := r.N.BitLen(); bits < minRSABits || bits > maxRSABits {
			return fmt.Errorf("the RSA key has %d bits; it takes %d to %d", bits, minRSABits, maxRSABits)
		}
	}
	return nil
}

// isSecurityKey reports whether a key lives in a FIDO authenticator, which can
// report whether it was touched.
func isSecurityKey(k ssh.PublicKey) bool {
	return k.Type() == ssh.KeyAlgoSKED25519 || k.Type() == ssh.KeyAlgoSKECDSA256
}

// A Key is a line of an authorized_keys file: a public key, or an authority
// that may certify keys, and options. The zero Key fits nothing.
type Key struct {
	Public  ssh.PublicKey
	Comment string

	line    string // all of it
	where   string // where it was found, for the log
	blob    string // Public, as it is compared
	options keyOptions
	fault   string // why it grants nothing
}

// ParseKey reads one line in the format of OpenSSH's authorized_keys, see
// sshd(8). These options have their effect:
//
//	from=                     addresses, networks, wildcards and exceptions; names match nothing
//	expiry-time=
//	command=                  internal-sftp, with -R and -d; -e, -f and -l change nothing
//	cert-authority            and with it principals=
//	no-touch-required         otherwise a security key has to be touched
//	verify-required           refuses security keys: whether a PIN was asked for cannot be seen here
//
// Those about terminals, forwarding and the like have none, for there is
// nothing of the kind. All others, and all other commands, are an error.
func ParseKey(line string) (Key, error) {
	k, err := parseKey(line)
	if err != nil {
		return Key{}, err
	}
	return k, nil
}

var errNoKey = errors.New("there is no key in the line")

// parseKey is ParseKey. If Public is set beside an error, the line is about
// that key, but must not grant it anything.
func parseKey(line string) (k Key, err error) {
	line = strings.Trim(line, " \t\r\n")
	switch {
	case line == "" || line[0] == '#':
		return k, errNoKey
	case len(line) > maxLine:
		return k, fmt.Errorf("the line has %d bytes, and %d are the most", len(line), maxLine)
	case strings.ContainsAny(line, "\x00\n"):
		return k, errors.New("the line has a NUL or a line break in it")
	}
	k.line = line
	var optionErr error
	rest := line
	if word, _ := cutSpace(line); !looksKeyType(word) {
		var options string
		options, rest = cutOptions(line)
		k.options, optionErr = parseKeyOptions(options)
	}
	kind, rest := cutSpace(rest)
	switch {
	case isKeyType(kind):
	case optionErr != nil && !looksKeyType(kind): // then it was hardly meant as options
		return Key{}, fmt.Errorf("neither a key nor options with a key behind them: %w", optionErr)
	default:
		return Key{}, fmt.Errorf("%q is no type of key that is accepted here", shorten(kind))
	}
	encoded, comment := cutSpace(rest)
	blob, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil || len(blob) == 0 {
		return Key{}, errors.New("the key is no base64")
	}
	public, err := ssh.ParsePublicKey(blob)
	if err != nil {
		return Key{}, errors.New("the key cannot be read: " + strings.TrimPrefix(err.Error(), "ssh: "))
	}
	if public.Type() != kind {
		return Key{}, fmt.Errorf("the line says %s, and the key %s", kind, public.Type())
	}
	if _, ok := public.(*ssh.Certificate); ok {
		return Key{}, errors.New("this is a certificate; list its key, or its authority with the option cert-authority")
	}
	k.Public, k.Comment, k.blob = public, comment, string(public.Marshal())
	err = optionErr
	if keyErr := checkKey(public); keyErr != nil {
		err = keyErr
	}
	if err != nil {
		k.fault = err.Error()
	}
	return k, err
}

// String returns the line.
func (k Key) String() string { return k.line }

// Fingerprint returns the SHA-256 fingerprint, as ssh-keygen -l shows it, or
// "" of the zero Key.
func (k Key) Fingerprint() string { return fingerprint(k.Public) }

// fingerprint returns that of a key or, of a certificate, that of its key.
func fingerprint(k ssh.PublicKey) string {
	if k == nil {
		return ""
	}
	if c, ok := k.(*ssh.Certificate); ok {
		k = c.Key
	}
	return ssh.FingerprintSHA256(k)
}

func isKeyType(s string) bool {
	return slices.Contains(keyTypes, s) || slices.Contains(certTypes, s)
}

// looksKeyType reports whether a line's first word is the type of a key, maybe
// of one that is not accepted. No option begins like one.
func looksKeyType(s string) bool {
	return strings.HasPrefix(s, "ssh-") || strings.HasPrefix(s, "ecdsa-") || strings.HasPrefix(s, "sk-")
}

// cutSpace returns the first word, and what comes after the white space behind.
func cutSpace(s string) (word, rest string) {
	i := strings.IndexAny(s, " \t")
	if i < 0 {
		return s, ""
	}
	return s[:i], strings.TrimLeft(s[i:], " \t")
}

// cutOptions is cutSpace for options, in which white space may be quoted.
func cutOptions(s string) (options, rest string) {
	quoted := false
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '\\' && i+1 < len(s) && s[i+1] == '"':
			i++
		case s[i] == '"':
			quoted = !quoted
		case (s[i] == ' ' || s[i] == '\t') && !quoted:
			return s[:i], strings.TrimLeft(s[i:], " \t")
		}
	}
	return s, ""
}

// maxShown is how much of what others wrote gets into a message.
const maxShown = 64

// shorten cuts what would make a message too long.
func shorten(s string) string {
	if len(s) > maxShown {
		return strings.ToValidUTF8(s[:maxShown], "") + "..."
	}
	return s
}

// parseKeys reads an authorized_keys file. Lines that cannot be used are
// returned as warnings, and among the keys if it is known which key they are
// about, so that a login with one can be refused with the reason.
func parseKeys(file, text string) (keys []Key, warnings []error) {
	for n, line := range statements(text) {
		if len(keys) == maxUserKeys {
			return keys, append(warnings, &SyntaxError{File: file, Line: n, Reason: fmt.Sprintf("there are more than %d keys", maxUserKeys)})
		}
		k, err := parseKey(line)
		k.where = fmt.Sprintf("%s, line %d", file, n)
		if err != nil {
			warnings = append(warnings, &SyntaxError{File: file, Line: n, Reason: err.Error()})
		}
		if k.Public != nil {
			keys = append(keys, k)
		}
	}
	return keys, warnings
}

// A SyntaxError is a line of a file that cannot be used. It does not quote the
// line, which may have a secret in it.
type SyntaxError struct {
	File   string
	Line   int    // from 1
	Reason string // what is wrong with it
}

// Error gives the file, the line and what is wrong.
func (e *SyntaxError) Error() string {
	return fmt.Sprintf("%s, line %d: %s", e.File, e.Line, e.Reason)
}

var errRevoked = errors.New("the line is neither a public key nor a SHA256: fingerprint")

// parseRevoked reads a line of a list of revoked keys: a fingerprint as
// ssh-keygen -l shows it, or a key or certificate as in a .pub file. Of a
// certificate its key is meant, in whatever other certificate it may be. Keys
// that are not accepted anyway may be listed too.
func parseRevoked(line string) (sum [sha256.Size]byte, err error) {
	first, rest := cutSpace(line)
	if encoded, ok := strings.CutPrefix(first, "SHA256:"); ok {
		b, err := base64.RawStdEncoding.Strict().DecodeString(strings.TrimRight(encoded, "="))
		if err != nil || len(b) != len(sum) {
			return sum, errors.New("the fingerprint is not whole")
		}
		return [sha256.Size]byte(b), nil
	}
	encoded, _ := cutSpace(rest)
	blob, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil || len(blob) == 0 {
		return sum, errRevoked
	}
	k, err := ssh.ParsePublicKey(blob)
	if err != nil || k.Type() != first {
		return sum, errRevoked
	}
	if c, ok := k.(*ssh.Certificate); ok {
		k = c.Key
	}
	return sha256.Sum256(k.Marshal()), nil
}
