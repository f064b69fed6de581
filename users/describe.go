package users

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// LoginMethods says how a user logs in, such as "password, 2 keys" or "disabled".
func (u *User) LoginMethods() string {
	var how []string
	if !u.Password.IsZero() {
		how = append(how, "password")
	}
	switch n := len(u.Keys); {
	case n == 1:
		how = append(how, "1 key")
	case n > 1:
		how = append(how, fmt.Sprintf("%d keys", n))
	}
	link := ", "
	if u.Require == KeyAndPassword {
		link = " + "
	}
	text := strings.Join(how, link)
	switch {
	case u.Disabled:
		return "disabled"
	case text == "":
		return "no password, no key" // a certificate may do
	}
	return text
}

// Describe returns the options, type, fingerprint and comment of a key.
func (k Key) Describe() string {
	if k.Public == nil {
		return "not usable: " + k.String()
	}
	options, _, _ := strings.Cut(k.String(), k.Public.Type())
	return strings.TrimSpace(options + k.Public.Type() + " " + k.Fingerprint() + " " + k.Comment)
}

// FindKey returns the one key of a user that has a fingerprint or a comment.
func (u *User) FindKey(word string) (found Key, err error) {
	for _, k := range u.Keys {
		if k.Public == nil || k.Fingerprint() != word && k.Comment != word {
			continue
		}
		if found.Public != nil && found.Fingerprint() != k.Fingerprint() {
			return k, fmt.Errorf("several keys of %s have the comment %q; name one by its fingerprint: %s, %s", u.Name, word, found.Fingerprint(), k.Fingerprint())
		}
		found = k
	}
	if found.Public == nil {
		return found, fmt.Errorf("user %s has no key with the fingerprint or comment %q; \"haul user key list %s\" lists them", u.Name, word, u.Name)
	}
	return found, nil
}

// LooksLikeKey reports whether a word is the line of a key, and not the name of a file.
func LooksLikeKey(word string) bool { return keyType.MatchString(word) }

var keyType = regexp.MustCompile(`(?:^|\s)(?:ssh|ecdsa|sk-ssh|sk-ecdsa)-[a-z0-9@.-]+\s`)

// ParseKeys reads the lines of an authorized_keys file. Unlike a file that a users file
// names, every line must be right: the user is there to correct it.
func ParseKeys(text string) (keys []Key, err error) {
	if strings.Contains(text, "PRIVATE KEY-----") {
		return nil, errors.New("that is a private key, which only its owner should have; the public key is in the file with .pub behind its name")
	}
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		k, err := ParseKey(line)
		if err != nil {
			return nil, err
		}
		keys = append(keys, k)
	}
	if len(keys) == 0 {
		return nil, errors.New("there is no key in it")
	}
	return keys, nil
}
