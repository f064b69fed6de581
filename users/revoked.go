package users

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"strings"

	"golang.org/x/crypto/ssh"
)

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
