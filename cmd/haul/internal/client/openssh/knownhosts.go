package openssh

import (
	"bufio"
	"bytes"
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
)

// These constants bound known_hosts. A longer line or a larger file is an error, because a key in a
// skipped part would count as new, or as not revoked.
const (
	maxKnownLine  = 1 << 20   // maximum length of a line, in bytes
	maxKnownFile  = 256 << 20 // maximum size of a file, in bytes
	maxKnownFound = 1000      // maximum number of keys for one host
	maxRevokedBy  = 10        // maximum number of lines that an error about a revoked key names
)

// A known holds the entries for one host name in known_hosts files.
type known struct {
	keys        []KnownKey // keys of the host itself
	authorities []KnownKey // keys of the authorities that may sign certificates of the host
}

// These are the markers of a line of known_hosts; see SSH_KNOWN_HOSTS FILE FORMAT in sshd(8).
const markAuthority, markRevoked = "@cert-authority", "@revoked"

// A knownLine is a line of known_hosts whose key is not parsed yet.
type knownLine struct {
	marker  string // empty if there is no marker
	hosts   string
	keyType string
	key     string // the key in base64
}

// splitKnown splits a line of known_hosts. ok is false if the line is empty or has another format.
func splitKnown(line string) (k knownLine, ok bool) {
	f := strings.Fields(line)
	if len(f) > 0 && f[0][0] == '@' {
		if k.marker = f[0]; k.marker != markAuthority && k.marker != markRevoked {
			return k, false
		}
		f = f[1:]
	}
	if len(f) < 3 || f[0][0] == '#' || f[0][0] == '@' {
		return k, false
	}
	k.hosts, k.keyType, k.key = f[0], f[1], f[2]
	return k, true
}

// parse decodes the key of a line.
func (k knownLine) parse() (ssh.PublicKey, error) {
	blob, err := base64.StdEncoding.DecodeString(k.key)
	if err != nil {
		return nil, err
	}
	key, err := ssh.ParsePublicKey(blob)
	if err != nil {
		return nil, err
	}
	if key.Type() != k.keyType {
		return nil, fmt.Errorf("key of type %s is said to be %q", key.Type(), k.keyType)
	}
	return key, nil
}

// matches reports whether a line applies to a host. name is the host's name as known_hosts writes
// it: [host]:port, or just the host if the port is 22.
func (k knownLine) matches(name string) bool {
	if !strings.HasPrefix(k.hosts, "|") {
		return matchHost(name, k.hosts)
	}
	salt, sum, ok := parseHash(k.hosts)
	return ok && hmac.Equal(sum, hashName(salt, name))
}

// parseHash reads a hashed name: |1|salt|hash.
func parseHash(s string) (salt, sum []byte, ok bool) {
	rest, ok := strings.CutPrefix(s, "|1|")
	if !ok {
		return nil, nil, false
	}
	a, b, ok := strings.Cut(rest, "|")
	salt, err1 := base64.StdEncoding.DecodeString(a)
	sum, err2 := base64.StdEncoding.DecodeString(b)
	return salt, sum, ok && err1 == nil && err2 == nil && len(salt) > 0 && len(sum) == sha1.Size
}

func hashName(salt []byte, name string) []byte {
	mac := hmac.New(sha1.New, salt)
	mac.Write([]byte(strings.ToLower(name)))
	return mac.Sum(nil)
}

// read adds the entries for a host name from known_hosts files.
func (k *known) read(files []string, name string) error {
	return eachKnownLine(files, func(line []byte, file string, n int) { k.line(line, file, n, name) })
}

// revokedIn returns the lines of known_hosts files that revoke one of the given keys. It ignores
// which hosts a line names, because a revoked key must never be accepted. It keeps only lines about
// the given keys, because the number of revoked keys is not bounded.
func revokedIn(files []string, keys []ssh.PublicKey) (found []KnownKey, err error) {
	err = eachKnownLine(files, func(line []byte, file string, n int) {
		if revoked := revokedBy(line, keys); revoked != nil && len(found) < maxRevokedBy {
			found = append(found, KnownKey{Key: revoked, File: file, Line: n})
		}
	})
	return found, err
}

// revokedBy returns the key that a line revokes, if that is one of the given keys, and nil
// otherwise.
func revokedBy(line []byte, keys []ssh.PublicKey) ssh.PublicKey {
	line = bytes.TrimSpace(line)
	if !bytes.HasPrefix(line, []byte(markRevoked)) {
		return nil
	}
	l, ok := splitKnown(string(line))
	if !ok || l.marker != markRevoked {
		return nil
	}
	revoked, err := l.parse()
	if err != nil || !slices.ContainsFunc(keys, func(k ssh.PublicKey) bool { return sameKey(k, revoked) }) {
		return nil
	}
	return revoked
}

// eachKnownLine calls f for each line of the files. It skips missing files. If a file cannot be
// read, it returns an error, because otherwise the keys in the file would count as new.
func eachKnownLine(files []string, f func(line []byte, file string, n int)) error {
	for _, file := range files {
		if err := eachLineOf(file, f); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("known hosts: %w", err)
		}
	}
	return nil
}

func eachLineOf(file string, f func(line []byte, file string, n int)) error {
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() && file != os.DevNull {
		return &fs.PathError{Op: "read", Path: file, Err: errors.New("it is no regular file")}
	}
	r, err := os.Open(file)
	if err != nil {
		return err
	}
	defer r.Close()
	return scanKnown(r, file, f)
}

// scanKnown calls f for each line that it reads from r.
func scanKnown(r io.Reader, file string, f func(line []byte, file string, n int)) error {
	limit := &io.LimitedReader{R: r, N: maxKnownFile + 1}
	s := bufio.NewScanner(limit)
	s.Buffer(make([]byte, 4<<10), maxKnownLine)
	n := 1
	for ; s.Scan(); n++ {
		f(s.Bytes(), file, n)
	}
	switch {
	case errors.Is(s.Err(), bufio.ErrTooLong):
		return fmt.Errorf("%s:%d: the line has more than %d bytes", file, n, maxKnownLine)
	case limit.N <= 0:
		return fmt.Errorf("%s: more than %d bytes", file, maxKnownFile)
	}
	return s.Err()
}

// line adds the key on one line, if the line applies to the host called `name`. As in ssh, it
// ignores lines that it cannot parse, because other versions have other types of keys.
func (k *known) line(line []byte, file string, n int, name string) {
	line = bytes.TrimSpace(line)
	l, ok := splitKnown(string(line))
	if !ok || l.marker == markRevoked || !l.matches(name) {
		return
	}
	key, err := l.parse()
	if err != nil {
		return
	}
	to := &k.keys
	if l.marker == markAuthority {
		to = &k.authorities
	}
	if len(*to) < maxKnownFound {
		*to = append(*to, KnownKey{Key: key, File: file, Line: n})
	}
}

// has returns those entries in `keys` that contain the given key.
func has(keys []KnownKey, key ssh.PublicKey) (found []KnownKey) {
	blob := key.Marshal()
	for _, k := range keys {
		if bytes.Equal(k.Key.Marshal(), blob) {
			found = append(found, k)
		}
	}
	return found
}

// order moves the algorithms of the host's known keys to the front of a list, so that the server
// shows a key that can be checked. Among these algorithms, and among the others, the order stays.
// See HostKeyAlgorithms in ssh_config(5).
func (k *known) order(list []string) []string {
	isKnown := func(algorithm string) bool {
		if _, cert := plainAlgorithm(algorithm); cert && len(k.authorities) > 0 {
			return true
		}
		return slices.ContainsFunc(k.keys, func(k KnownKey) bool { return k.Key.Type() == keyType(algorithm) })
	}
	var first, last []string
	for _, a := range list {
		if isKnown(a) {
			first = append(first, a)
		} else {
			last = append(last, a)
		}
	}
	return append(first, last...)
}

// readRevoked reads a RevokedHostKeys file: public keys, one per line.
func readRevoked(file string) ([]KnownKey, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxConfigFile+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxConfigFile {
		return nil, fmt.Errorf("%s: more than %d bytes", file, maxConfigFile)
	}
	if bytes.HasPrefix(text, []byte("SSHKRL\n")) {
		return nil, fmt.Errorf("%s: a key revocation list of ssh-keygen -k cannot be read here; write the keys one a line", file)
	}
	var revoked []KnownKey
	n := 0
	for line := range bytes.Lines(text) {
		n++
		if line = bytes.TrimSpace(line); len(line) == 0 || line[0] == '#' {
			continue
		}
		key, _, _, _, err := ssh.ParseAuthorizedKey(line)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, n, err)
		}
		revoked = append(revoked, KnownKey{Key: key, File: file, Line: n})
	}
	return revoked, nil
}
