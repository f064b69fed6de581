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

// These are the limits for the size of RSA keys, in bits. Smaller keys can be broken. Larger ones
// waste CPU time, because the time to check a signature grows with the square of the size.
const (
	minRSABits = 2048
	maxRSABits = 8192
)

// signatures lists the accepted signature algorithms, for logins and for certificates. It includes
// neither SHA-1, which the name ssh-rsa stands for, nor DSA.
var signatures = []string{
	ssh.KeyAlgoED25519, ssh.KeyAlgoSKED25519,
	ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521, ssh.KeyAlgoSKECDSA256,
	ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256,
}

// keyTypes lists the types of keys that are accepted, and certTypes the types of certificates. A
// line may begin with any of them.
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

// checkKey returns the reason why a key is not accepted for any user, or nil. It is called before
// the key is used to verify a signature.
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

// isSecurityKey reports whether a key is stored in a FIDO authenticator, which can report whether a
// person has touched it.
func isSecurityKey(k ssh.PublicKey) bool {
	return k.Type() == ssh.KeyAlgoSKED25519 || k.Type() == ssh.KeyAlgoSKECDSA256
}

// A Key is a line of an authorized_keys file: a public key, or the key of an authority that may
// certify keys, with its options. The zero Key matches no key.
type Key struct {
	Public  ssh.PublicKey
	Comment string

	line    string // text of the line, as it is in the file
	where   string // file and number of the line, for the log
	blob    string // Public in its binary form, for comparisons
	options keyOptions
	fault   string // reason why the key may not be used; "" if it may
}

// ParseKey parses a line in the format of OpenSSH's authorized_keys file: see sshd(8). These
// options have an effect:
//
//	from=               addresses, networks, wildcards and exceptions; names never match
//	expiry-time=        the time from which the key is not accepted
//	command=            internal-sftp, with -R and -d; -e, -f and -l have no effect
//	cert-authority      and, only together with it, principals=
//	no-touch-required   without it, a security key must be touched
//	verify-required     refuses security keys, because it cannot be checked whether they asked for a PIN
//
// Options for terminals, forwarding and the like have no effect, because the server does not offer
// these features. All other options, and all other commands, are errors.
func ParseKey(line string) (Key, error) {
	k, err := parseKey(line)
	if err != nil {
		return Key{}, err
	}
	return k, nil
}

var errNoKey = errors.New("there is no key in the line")

// parseKey is like ParseKey, but may return an error together with a Key whose Public is set. Then
// the line contains that key, but the key must not be accepted.
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
	case optionErr != nil && !looksKeyType(kind): // the first word is neither a key's type nor valid options
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

// String returns the line with the key, as it is in the file.
func (k Key) String() string { return k.line }

// Fingerprint returns the SHA-256 fingerprint as ssh-keygen -l shows it. It returns "" for the zero
// Key.
func (k Key) Fingerprint() string { return fingerprint(k.Public) }

// fingerprint returns the fingerprint of a key. For a certificate, that is the fingerprint of the
// certified key.
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

// looksKeyType reports whether a line's first word looks like the type of a key, even one that is
// not accepted. No option begins like this.
func looksKeyType(s string) bool {
	return strings.HasPrefix(s, "ssh-") || strings.HasPrefix(s, "ecdsa-") || strings.HasPrefix(s, "sk-")
}

// cutSpace splits s after its first word. rest does not include the white space between.
func cutSpace(s string) (word, rest string) {
	i := strings.IndexAny(s, " \t")
	if i < 0 {
		return s, ""
	}
	return s[:i], strings.TrimLeft(s[i:], " \t")
}

// cutOptions is like cutSpace, but for options, in which quotes may contain white space.
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

// maxShown is how many bytes of a client's text a message may contain.
const maxShown = 64

// shorten truncates a text to maxShown bytes.
func shorten(s string) string {
	if len(s) > maxShown {
		return strings.ToValidUTF8(s[:maxShown], "") + "..."
	}
	return s
}

// parseKeys parses an authorized_keys file. For each line that cannot be used it returns a warning.
// If such a line contains a key, the result includes that key, so that a login with it can be
// refused with the reason.
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

// A SyntaxError says which line of a file cannot be used, and why. It does not quote the line,
// which may contain a secret.
type SyntaxError struct {
	File   string
	Line   int    // number of the line, counted from 1
	Reason string // why the line cannot be used
}

// Error returns the file, the line and the reason.
func (e *SyntaxError) Error() string {
	return fmt.Sprintf("%s, line %d: %s", e.File, e.Line, e.Reason)
}

var errRevoked = errors.New("the line is neither a public key nor a SHA256: fingerprint")

// parseRevoked parses a line of a list of revoked keys: a fingerprint as ssh-keygen -l shows it, or
// a key or certificate as in a .pub file. A certificate stands for the certified key, which is then
// revoked in every other certificate too. The list may also contain keys of types that are
// never accepted.
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
