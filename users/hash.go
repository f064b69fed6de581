package users

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/crypto/argon2"
	"golang.org/x/crypto/bcrypt"
)

// These constants limit the cost of a hash. A hash that costs more is refused when it is loaded,
// because afterwards any client could make the server compute it.
const (
	maxBcryptCost   = 14        // takes about a second on one core
	maxArgonMemory  = 128 << 10 // KiB
	maxArgonWork    = 512 << 10 // product of memory in KiB and passes
	maxArgonThreads = 16

	minSalt, maxSalt = 8, 64  // bytes; RFC 9106 §3.1 requires at least 8
	minTag, maxTag   = 16, 64 // bytes of the hash value
)

// A new hash takes 19 MiB and two passes, the minimum of OWASP's cheat sheet for password storage.
// RFC 9106 §4 recommends 64 MiB and three passes, which would be too much for a server with 256 MiB
// of memory.
const (
	argonMemory  = 19 << 10 // KiB
	argonPasses  = 2
	argonThreads = 1
	argonSalt    = 16 // bytes
	argonTag     = 32 // bytes
)

// MaxPassword is the size of the longest password, in bytes. A longer one is refused before any
// work is done for it, as in OpenSSH.
const MaxPassword = 1024

// maxBcryptPassword is the number of bytes of a password that bcrypt uses. bcrypt alone would
// accept every password that begins with the right 72 bytes.
const maxBcryptPassword = 72

// A Hash is the hash of a password, as in a users file. The zero Hash matches no password.
type Hash struct {
	text string // the whole hash, as in the users file
	salt []byte // argon2id only, like the fields up to threads
	tag  []byte
	memory,
	passes uint32
	threads uint8
	cost    int // cost of a bcrypt hash; 0 for argon2id
}

var errHash = errors.New("the password is neither a bcrypt hash ($2b$12$...) nor an argon2id one ($argon2id$v=19$m=19456,t=2,p=1$...)")

// ParseHash parses a hash: a bcrypt hash in the format of crypt(3), or an argon2id hash in the PHC
// string format. Its errors do not quote the hash.
func ParseHash(s string) (Hash, error) {
	switch {
	case strings.HasPrefix(s, "$argon2id$"):
		return parseArgon(s)
	case strings.HasPrefix(s, "$2"):
		return parseBcrypt(s)
	}
	return Hash{}, errHash
}

// bcryptAlphabet holds the characters of bcrypt's variant of base64.
const bcryptAlphabet = "./ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

func parseBcrypt(s string) (Hash, error) {
	// $2x$ is not accepted: it marks hashes of a library that handled bytes above 127 wrongly.
	version := s[:min(4, len(s))]
	if version != "$2a$" && version != "$2b$" && version != "$2y$" {
		return Hash{}, errHash
	}
	// Check the length, because package bcrypt ignores anything after 60 bytes.
	if len(s) != 60 || s[6] != '$' || strings.Trim(s[4:6], "0123456789") != "" || strings.Trim(s[7:], bcryptAlphabet) != "" {
		return Hash{}, errors.New("the bcrypt hash is not whole")
	}
	cost, err := bcrypt.Cost([]byte(s))
	switch {
	case err != nil:
		return Hash{}, errors.New("the bcrypt hash cannot be read")
	case cost > maxBcryptCost:
		return Hash{}, fmt.Errorf("the bcrypt hash has cost %d, and %d is the most", cost, maxBcryptCost)
	}
	return Hash{text: s, cost: cost}, nil
}

func parseArgon(s string) (Hash, error) {
	parts := strings.Split(s, "$") // "", argon2id, v=19, m=...,t=...,p=..., salt, tag
	if len(parts) != 6 || parts[2] != "v=19" {
		return Hash{}, errors.New("the argon2id hash is not whole, or not of version 19")
	}
	h := Hash{text: s}
	params := strings.Split(parts[3], ",")
	if len(params) != 3 {
		return Hash{}, errors.New("the argon2id hash does not have the parameters m, t and p")
	}
	var n [3]uint64
	for i, name := range []string{"m=", "t=", "p="} {
		digits, ok := strings.CutPrefix(params[i], name)
		v, err := strconv.ParseUint(digits, 10, 32)
		if !ok || err != nil || strconv.FormatUint(v, 10) != digits {
			return Hash{}, errors.New("the argon2id hash does not have the parameters m, t and p as numbers, in that order")
		}
		n[i] = v
	}
	switch m, t, p := n[0], n[1], n[2]; {
	case m > maxArgonMemory || t*m > maxArgonWork || p > maxArgonThreads:
		return Hash{}, fmt.Errorf("the argon2id hash costs too much: m=%d,t=%d,p=%d, where m is %d KiB at most, m times t %d and p %d",
			m, t, p, maxArgonMemory, maxArgonWork, maxArgonThreads)
	case t == 0 || p == 0 || m < 8*p: // RFC 9106 §3.1 does not allow these values
		return Hash{}, fmt.Errorf("the argon2id hash has impossible parameters: m=%d,t=%d,p=%d", m, t, p)
	}
	h.memory, h.passes, h.threads = uint32(n[0]), uint32(n[1]), uint8(n[2])
	var err, err2 error
	h.salt, err = phcBase64.DecodeString(parts[4])
	h.tag, err2 = phcBase64.DecodeString(parts[5])
	switch {
	case err != nil || err2 != nil || strings.ContainsAny(s, "\r\n"): // the decoder would ignore line breaks
		return Hash{}, errors.New("the salt or hash of the argon2id hash is no base64 without padding")
	case len(h.salt) < minSalt || len(h.salt) > maxSalt:
		return Hash{}, fmt.Errorf("the argon2id hash has a salt of %d bytes; it takes %d to %d", len(h.salt), minSalt, maxSalt)
	case len(h.tag) < minTag || len(h.tag) > maxTag:
		return Hash{}, fmt.Errorf("the argon2id hash has %d bytes; it takes %d to %d", len(h.tag), minTag, maxTag)
	}
	return h, nil
}

// phcBase64 refuses unused bits that are not zero, so that there is only one text for each hash.
var phcBase64 = base64.RawStdEncoding.Strict()

var errEmptyPassword = errors.New("the password is empty")

// HashPassword returns a new argon2id hash with a random salt. Computing it takes 19 MiB of memory.
func HashPassword(password []byte) (Hash, error) {
	switch {
	case len(password) == 0:
		return Hash{}, errEmptyPassword
	case len(password) > MaxPassword:
		return Hash{}, fmt.Errorf("the password has %d bytes, and %d are the most", len(password), MaxPassword)
	}
	h := Hash{salt: make([]byte, argonSalt), memory: argonMemory, passes: argonPasses, threads: argonThreads}
	_, _ = rand.Read(h.salt) // never returns an error
	h.tag = argon2.IDKey(password, h.salt, h.passes, h.memory, h.threads, argonTag)
	h.text = fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, h.memory, h.passes, h.threads,
		phcBase64.EncodeToString(h.salt), phcBase64.EncodeToString(h.tag))
	return h, nil
}

// matches computes the hash of a password, and reports whether it is equal to h.
func (h Hash) matches(password []byte) bool {
	if h.IsZero() || len(password) == 0 || len(password) > MaxPassword {
		return false
	}
	if h.cost == 0 {
		tag := argon2.IDKey(password, h.salt, h.passes, h.memory, h.threads, uint32(len(h.tag)))
		return subtle.ConstantTimeCompare(tag, h.tag) == 1
	}
	// bcrypt repeats the password, with a NUL after each copy, so a password with a NUL in it could
	// match the hash of another one. bcrypt also ignores all bytes after the 72nd. Both kinds of
	// password are refused, but only after the comparison, so that refusing them takes as long as
	// refusing any wrong password.
	odd := len(password) > maxBcryptPassword || strings.Contains(string(password), "\x00")
	return bcrypt.CompareHashAndPassword([]byte(h.text), password) == nil && !odd
}

// IsZero reports whether h is the zero Hash, which means that there is no password.
func (h Hash) IsZero() bool { return h.text == "" }

// Encoded returns the hash in the format of a users file. Keep it secret: passwords can be guessed
// from it.
func (h Hash) Encoded() string { return h.text }

// String describes the hash without revealing it, so that it can be logged.
func (h Hash) String() string {
	switch {
	case h.IsZero():
		return "none"
	case h.cost > 0:
		return fmt.Sprintf("bcrypt of cost %d", h.cost)
	}
	return fmt.Sprintf("argon2id with m=%d,t=%d,p=%d", h.memory, h.passes, h.threads)
}

// GoString is like String, for the format %#v.
func (h Hash) GoString() string { return "users.Hash{" + h.String() + "}" }
