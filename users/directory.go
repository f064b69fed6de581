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

// A Directory holds all users. Any goroutine may call its methods. A change by [Directory.Reload]
// affects all calls that begin after it.
type Directory struct {
	file    string // absolute path of the users file; "" if there is no file
	owners  []int  // IDs of users, in addition to root, who may own the file; empty means any
	table   atomic.Pointer[table]
	seed    maphash.Seed // secret seed by which standIn chooses a hash
	limiter verifyLimiter

	mu       sync.Mutex // held during Reload, so that only one runs at a time
	seen     []sighting // files that the last Reload read; guarded by mu
	outcome  error      // error of the last Reload; guarded by mu
	sum      []byte     // hash of all files in use; guarded by mu
	warnings []error    // warnings about the files in use; guarded by mu
}

// A table holds all users at one moment. It never changes.
type table struct {
	accounts    map[string]*User           // maps names to users
	authorities []Key                      // lines of authorities that are trusted for all users
	revoked     map[[sha256.Size]byte]bool // SHA-256 of each revoked key
	hashes      []Hash                     // password hashes of all users, in the order of the users' names
	lists       []string                   // paths of the files with authorities and revoked keys
}

// maxWarnings is the largest number of warnings that Warnings returns.
const maxWarnings = 100

// Open loads a users file. The owner of the file decides who may log in. So a server should pass
// owners, the IDs of the users in addition to root who may own the file: the user that the server
// runs as, or will run as. If another user owns the file, or a file with authorities or revoked
// keys, Open returns an error. The files with users' keys may belong to the users themselves.
// Without owners, any owner is accepted; this is for systems where files have no numeric owner.
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

// New returns a directory with the given users, which does not use a file. Keys come from
// [ParseKey]. KeyFiles must be empty. In a Root, %u stands for the user's name, as in a users file.
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

// Reload loads the users file, and the files that it names, if one of them has changed since the
// last attempt. changed reports whether the new content is now in use. If anything is wrong, the
// old content stays in use, and the error gives the reason. As long as no file changes, further
// calls return the same error at little cost. A Directory made by [New] never changes.
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
	// The files were written with the same content, or their last change was too recent to compare
	// times.
	if bytes.Equal(sum, d.sum) {
		return false, nil
	}
	d.table.Store(t)
	d.sum, d.warnings = sum, warnings
	return true, nil
}

// Warnings returns the problems of the files in use that do not prevent their use: keys that cannot
// be used, and users who have no way to log in.
func (d *Directory) Warnings() []error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.warnings)
}

// Files returns the files that the last attempt to load has read or tried to read: the users file,
// and the files that it names, sorted. A process that restricts its access to files must keep
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

// Lists returns the files with authorities and revoked keys that are in use. Whoever can write to
// one of them can decide who may log in, and as which user.
func (d *Directory) Lists() []string { return slices.Clone(d.table.Load().lists) }

// User returns the user of that name. The caller must not change the slices in the result.
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

// collect fills t.hashes with the password hashes of all users.
func (t *table) collect() {
	for _, n := range t.names() {
		if h := t.accounts[n].Password; !h.IsZero() {
			t.hashes = append(t.hashes, h)
		}
	}
}

// load reads a users file, and all files that it names.
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
	// The lists of authorities and of revoked keys must exist and be valid. Otherwise a missing
	// list would count as an empty one.
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

// lacks describes what a user lacks to be able to log in, for a warning. It returns "" if the user
// lacks nothing.
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

// keys reads an authorized_keys file. The result includes keys that cannot be used; there is a
// warning for each of them.
func (l *loader) keys(name string) (keys []Key, warnings []error, err error) {
	path := l.path(name)
	text, err := l.read(path, maxKeyFile, writable)
	if err != nil {
		return nil, nil, err
	}
	keys, warnings = parseKeys(path, text)
	return keys, warnings, nil
}

// authorities reads a file with keys of authorities. If one line is invalid, it returns an error.
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

// revoked reads a list of revoked keys, and adds them to t.
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

// eachLine calls the function `do` for each line that is neither empty nor a comment. It stops at the
// first error.
func eachLine(file, text string, do func(line, where string) error) error {
	for n, line := range statements(text) {
		if err := do(line, fmt.Sprintf("%s, line %d", file, n)); err != nil {
			return &SyntaxError{File: file, Line: n, Reason: err.Error()}
		}
	}
	return nil
}

// isRevoked reports whether a key is revoked. For a certificate, the caller has to check both the
// certified key and the authority's key.
func (t *table) isRevoked(k ssh.PublicKey) bool {
	return len(t.revoked) > 0 && t.revoked[sha256.Sum256(k.Marshal())]
}

// standIn returns a hash to check for a user who does not exist or has no password. So the check
// takes as long as for a user with a password, and its duration reveals nothing.
//
// Hashes may differ in cost. If every unknown name took as long as the most expensive hash, that
// could be noticed. So each name is mapped to the hash of one of the users: always to the same one,
// which depends on a secret seed.
func (d *Directory) standIn(t *table, name string) Hash {
	if len(t.hashes) == 0 {
		return anyHash
	}
	return t.hashes[maphash.String(d.seed, name)%uint64(len(t.hashes))]
}

// anyHash costs as much to check as a new hash. It is used if no user has a password.
var anyHash = Hash{
	text:    "none",
	salt:    make([]byte, argonSalt),
	tag:     make([]byte, argonTag),
	memory:  argonMemory,
	passes:  argonPasses,
	threads: argonThreads,
}
