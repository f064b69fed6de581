package users

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/crypto/ssh"
)

// A Directory holds all users. Any goroutine may call its methods. The changes of
// [Directory.Reload] apply from the next call on.
type Directory struct {
	file    string // "" if there is no file
	owners  []int  // the users besides root that may own the file; empty means any user
	table   atomic.Pointer[table]
	seed    maphash.Seed // selects the hash that is checked for a user without one
	limiter verifyLimiter

	mu       sync.Mutex // one Reload at a time
	seen     []sighting // mu: the files that the last Reload read
	outcome  error      // mu: the error of the last Reload
	sum      []byte     // mu: hash of all files in force
	warnings []error    // mu: warnings about them
}

// A table holds all users as of one moment. It is never changed.
type table struct {
	accounts    map[string]*User
	authorities []Key
	revoked     map[[sha256.Size]byte]bool // SHA-256 of keys
	hashes      []Hash                     // of all users, in the order of their names
	lists       []string                   // the files of authorities and revoked keys
}

// maxWarnings is how many warnings are kept.
const maxWarnings = 100

// Open loads a users file. Whoever owns the file decides who may log in. So a server passes owners,
// the IDs of the users besides root who may own the file: the user that the server runs as, or will
// run as. If another user owns the file, or a file of authorities or of revoked keys, Open returns
// an error; the files of users' keys may belong to the users themselves. Without owners any owner
// is accepted, as on systems where files have no numeric owner.
func Open(file string, owners ...int) (*Directory, error) {
	file, err := filepath.Abs(file)
	if err != nil {
		return nil, fmt.Errorf("load users from %s: %w", file, err)
	}
	d := newDirectory(file)
	d.owners = slices.Clone(owners)
	if _, err := d.Reload(); err != nil {
		return nil, err
	}
	return d, nil
}

// New returns a directory of the given users, without a file. Keys come from [ParseKey], and
// KeyFiles must be empty. In a Root, %u is the user's name, as in a users file.
func New(all ...User) (*Directory, error) {
	d := newDirectory("")
	t := &table{accounts: map[string]*User{}}
	for _, u := range all {
		if err := CheckName(u.Name); err != nil {
			return nil, err
		}
		if t.accounts[u.Name] != nil {
			return nil, fmt.Errorf("user %s is there twice", u.Name)
		}
		if len(u.KeyFiles) > 0 {
			return nil, fmt.Errorf("user %s names files of keys, which are for a users file", u.Name)
		}
		u.Keys = slices.Clone(u.Keys)
		u.From = slices.Clone(u.From)
		if err := u.expand(); err != nil {
			return nil, fmt.Errorf("user %s: %w", u.Name, err)
		}
		t.accounts[u.Name] = &u
	}
	t.collect()
	d.table.Store(t)
	return d, nil
}

func newDirectory(file string) *Directory {
	d := &Directory{file: file, seed: maphash.MakeSeed()}
	d.limiter.places = make(chan struct{}, parallelChecks())
	d.table.Store(&table{})
	return d
}

// Reload loads the users file, and the files it names, if one of them has changed since the last
// attempt. changed reports whether the new content came into force. If anything is wrong, the old
// content stays in force, and the error says why; as long as no file changes, further calls return
// the same error at little cost. A Directory made by [New] never changes.
func (d *Directory) Reload() (changed bool, err error) {
	if d.file == "" {
		return false, nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.seen != nil && unchanged(d.seen) {
		return false, d.outcome
	}
	l := &loader{dir: filepath.Dir(d.file), sum: sha256.New(), owners: d.owners}
	t, warnings, err := l.load(d.file)
	d.seen, d.outcome = l.seen, nil
	if err != nil {
		d.outcome = fmt.Errorf("load users: %w", err)
		return false, d.outcome
	}
	sum := l.sum.Sum(nil)
	if bytes.Equal(sum, d.sum) { // the files were only touched, or had changed too recently to be compared
		return false, nil
	}
	d.table.Store(t)
	d.sum, d.warnings = sum, warnings
	return true, nil
}

// Warnings returns the problems of the files in force that do not prevent their use: keys that
// cannot be used, and users who have no way to log in.
func (d *Directory) Warnings() []error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.warnings)
}

// Files returns the files that the last attempt to load has read or looked for: the users file, and
// the files that it names. They are sorted. A process that restricts its access to files must keep
// access to them, or better to their directories, because a file may be replaced.
func (d *Directory) Files() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var files []string
	for _, s := range d.seen {
		files = append(files, s.path)
	}
	slices.Sort(files)
	return slices.Compact(files)
}

// Lists returns the files of authorities and of revoked keys in force. Write access to one of them
// is enough to decide who may log in, and as which user.
func (d *Directory) Lists() []string { return slices.Clone(d.table.Load().lists) }

// User returns a user by name. The caller must not change the result's slices.
func (d *Directory) User(name string) (User, bool) {
	u := d.table.Load().accounts[name]
	if u == nil {
		return User{}, false
	}
	return *u, true
}

// Names returns the names of all users, sorted.
func (d *Directory) Names() []string { return d.table.Load().names() }

func (t *table) names() []string { return slices.Sorted(maps.Keys(t.accounts)) }

// collect gathers the hashes and authorities of all users in one place.
func (t *table) collect() {
	for _, n := range t.names() {
		if h := t.accounts[n].Password; !h.IsZero() {
			t.hashes = append(t.hashes, h)
		}
	}
}

// load reads a users file and all files that it names.
func (l *loader) load(file string) (t *table, warnings []error, err error) {
	text, err := l.readOurs(file, maxFile, openToOthers|writable)
	if err != nil {
		return nil, nil, err
	}
	p, err := parseFile(file, text)
	if err != nil {
		return nil, nil, err
	}
	t = &table{accounts: make(map[string]*User, len(p.users)), authorities: p.authorities}
	// The lists of authorities and of revoked keys must be valid: a missing list would otherwise
	// count as an empty one.
	var faults []error
	for _, n := range slices.Concat(p.authorityFile, p.revokedFile) {
		t.lists = append(t.lists, l.path(n.name))
	}
	for _, n := range p.authorityFile {
		more, err := l.authorities(n.name)
		if err != nil {
			faults = append(faults, p.at(n.line, err))
		}
		t.authorities = append(t.authorities, more...)
	}
	for _, n := range p.revokedFile {
		if err := l.revoked(t, n.name); err != nil {
			faults = append(faults, p.at(n.line, err))
		}
	}
	if len(faults) > 0 {
		return nil, nil, errors.Join(faults...)
	}
	keys := 0
	for _, s := range p.users {
		u := &s.user
		known := len(warnings)
		for _, f := range u.KeyFiles {
			more, wrong, err := l.keys(f)
			if err != nil && (s.has["keys"] || !missing(err)) { // the default file need not exist
				wrong = append(wrong, p.at(s.line, fmt.Errorf("user %s: %w", u.Name, err)))
			}
			warnings = append(warnings, wrong[:min(len(wrong), maxWarnings-len(warnings))]...)
			u.Keys = append(u.Keys, more...)
		}
		if keys += len(u.Keys); keys > maxKeys {
			return nil, nil, fmt.Errorf("%s: all users together have more than %d keys", file, maxKeys)
		}
		if lack := t.lacks(u); lack != "" && len(warnings) == known && len(warnings) < maxWarnings {
			warnings = append(warnings, p.at(s.line, fmt.Errorf("user %s cannot log in: there is %s", u.Name, lack)))
		}
		t.accounts[u.Name] = u
	}
	t.collect()
	return t, warnings, nil
}

// lacks describes what a user lacks in order to log in. It returns "" if nothing is missing.
func (t *table) lacks(u *User) string {
	password := !u.Password.IsZero()
	key := len(t.authorities) > 0 || slices.ContainsFunc(u.Keys, func(k Key) bool { return k.fault == "" })
	switch {
	case u.Disabled:
	case !key && !password:
		return "neither a key nor a password, nor an authority for certificates"
	case u.Require == KeyAndPassword && !key:
		return "no key, nor an authority for certificates, and both key and password are required"
	case u.Require == KeyAndPassword && !password:
		return "no password, and both key and password are required"
	}
	return ""
}

// keys reads an authorized_keys file. The result includes keys that cannot be used; for each of
// them, keys also returns a warning.
func (l *loader) keys(name string) (keys []Key, warnings []error, err error) {
	path := l.path(name)
	text, err := l.read(path, maxKeyFile, writable)
	if err != nil {
		return nil, nil, err
	}
	keys, warnings = parseKeys(path, text)
	return keys, warnings, nil
}

// authorities reads a file of authorities. All lines must be valid.
func (l *loader) authorities(name string) (keys []Key, err error) {
	path := l.path(name)
	text, err := l.readOurs(path, maxKeyFile, writable)
	if err != nil {
		return nil, err
	}
	err = eachLine(path, text, func(line, where string) error {
		k, err := parseAuthority(line)
		k.where = where
		keys = append(keys, k)
		return err
	})
	return keys, err
}

// revoked reads a list of revoked keys.
func (l *loader) revoked(t *table, name string) error {
	path := l.path(name)
	text, err := l.readOurs(path, maxKeyFile, writable)
	if err != nil {
		return err
	}
	if strings.HasPrefix(text, "SSHKRL\n") {
		return fmt.Errorf("read %s: a key revocation list in OpenSSH's binary format; list keys or fingerprints as text instead", path)
	}
	if t.revoked == nil {
		t.revoked = map[[sha256.Size]byte]bool{}
	}
	return eachLine(path, text, func(line, _ string) error {
		sum, err := parseRevoked(line)
		t.revoked[sum] = true
		return err
	})
}

// eachLine calls a function for each line that is neither empty nor a comment, and stops at the
// first error.
func eachLine(file, text string, do func(line, where string) error) error {
	for n, line := range statements(text) {
		if err := do(line, fmt.Sprintf("%s, line %d", file, n)); err != nil {
			return &SyntaxError{File: file, Line: n, Reason: err.Error()}
		}
	}
	return nil
}

// isRevoked reports whether a key is revoked. For a certificate, call it with each key in it.
func (t *table) isRevoked(k ssh.PublicKey) bool {
	return len(t.revoked) > 0 && t.revoked[sha256.Sum256(k.Marshal())]
}

// standIn returns the hash to check for a user who has no hash, or who does not exist. Because of
// it, the answer takes as long as for a user with a hash, and reveals nothing.
//
// Hashes may differ in cost. If every unknown name took as long as the most expensive hash, that
// would be noticed. So each name is mapped to the hash of one of the users: always the same one,
// but chosen by a secret seed.
func (d *Directory) standIn(t *table, name string) Hash {
	if len(t.hashes) == 0 {
		return anyHash
	}
	return t.hashes[maphash.String(d.seed, name)%uint64(len(t.hashes))]
}

// anyHash is a hash with the cost of new hashes.
var anyHash = Hash{
	text:    "none",
	salt:    make([]byte, argonSalt),
	tag:     make([]byte, argonTag),
	memory:  argonMemory,
	passes:  argonPasses,
	threads: argonThreads,
}
