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

// A Directory knows all users. Its methods may be called by any goroutine; what
// [Directory.Reload] changes holds from the next question on.
type Directory struct {
	file    string // "" if there is none
	owners  []int  // whom it may belong to besides root; none means any user
	table   atomic.Pointer[table]
	seed    maphash.Seed // picks the hash that stands in for a missing one
	limiter verifyLimiter

	mu       sync.Mutex // one Reload at a time
	seen     []sighting // mu: by the last of them
	outcome  error      // mu: and what it came to
	sum      []byte     // mu: of all that is in force
	warnings []error    // mu: about it
}

// A table is everything as of one moment. It is never changed.
type table struct {
	accounts    map[string]*User
	authorities []Key
	revoked     map[[sha256.Size]byte]bool // SHA-256 of keys
	hashes      []Hash                     // of all users, in the order of their names
	lists       []string                   // the files of authorities and revoked keys
}

// maxWarnings is how many warnings are kept.
const maxWarnings = 100

// Open loads a users file. The owner of the file decides who may log in, so a
// server names the users, by their numbers, whom it may belong to besides root: the
// user that it runs as, or will run as. A file of another user is an error then, and
// so are files of authorities and of revoked keys; the files of users' keys may be
// the users' own. Without owners any owner will do, as on systems where files do not
// belong to numbers.
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

// New makes a directory of users that are in no file. Keys are from [ParseKey],
// and there can be no KeyFiles. In a Root %u is the user's name, as in a file.
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

// Reload loads the users file and the files it names again, if one of them has
// changed since the last attempt, and reports whether that came into force. If
// anything is wrong all stays as it was, and the error says what; as long as
// no file changes, further calls return it again and cost little. A Directory
// made by [New] never changes.
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
	if bytes.Equal(sum, d.sum) { // touched, or young
		return false, nil
	}
	d.table.Store(t)
	d.sum, d.warnings = sum, warnings
	return true, nil
}

// Warnings returns what is wrong with the files in force, but not so wrong as
// to keep them from being so: keys that cannot be used, and users who have nothing
// to log in by.
func (d *Directory) Warnings() []error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.warnings)
}

// Files returns the files that the last attempt to load read, or looked for: the
// users file, and those that it names. A process that gives up the right to other
// files keeps it to these, or better to their directories, where a file gets
// replaced. They are sorted.
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

// Lists returns the files of authorities and of revoked keys in force. Write access
// to one of them is enough to decide who may log in, and as whom.
func (d *Directory) Lists() []string { return slices.Clone(d.table.Load().lists) }

// User returns a user by name. The caller must not change what it holds.
func (d *Directory) User(name string) (User, bool) {
	u := d.table.Load().accounts[name]
	if u == nil {
		return User{}, false
	}
	return *u, true
}

// Names returns the names of all users, in order.
func (d *Directory) Names() []string { return d.table.Load().names() }

func (t *table) names() []string { return slices.Sorted(maps.Keys(t.accounts)) }

// collect gathers what is known of all users together.
func (t *table) collect() {
	for _, n := range t.names() {
		if h := t.accounts[n].Password; !h.IsZero() {
			t.hashes = append(t.hashes, h)
		}
	}
}

// load reads a users file and all it names.
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
	// Whom to trust, and what is revoked, has to be right: a list that is
	// missing would be an empty one.
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

// lacks returns what a user has not that it takes to log in, or "".
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

// keys reads an authorized_keys file. Those that cannot be used yield warnings, and
// are among the keys.
func (l *loader) keys(name string) (keys []Key, warnings []error, err error) {
	path := l.path(name)
	text, err := l.read(path, maxKeyFile, writable)
	if err != nil {
		return nil, nil, err
	}
	keys, warnings = parseKeys(path, text)
	return keys, warnings, nil
}

// authorities reads a file of authorities, all of which have to be right.
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

// eachLine calls a function for each line that says something, and stops with
// the first that is wrong.
func eachLine(file, text string, do func(line, where string) error) error {
	for n, line := range statements(text) {
		if err := do(line, fmt.Sprintf("%s, line %d", file, n)); err != nil {
			return &SyntaxError{File: file, Line: n, Reason: err.Error()}
		}
	}
	return nil
}

// isRevoked reports whether a key is revoked. It is not for certificates, but
// for the keys in one.
func (t *table) isRevoked(k ssh.PublicKey) bool {
	return len(t.revoked) > 0 && t.revoked[sha256.Sum256(k.Marshal())]
}

// standIn returns the hash to check for a user who has none, or does not exist. So
// the answer takes as long as for a user who has one, and reveals nothing.
//
// If hashes differ in cost, a name that always took as long as the dearest would
// reveal itself. So each name stands for one of the users, always the same, but
// secretly chosen.
func (d *Directory) standIn(t *table, name string) Hash {
	if len(t.hashes) == 0 {
		return anyHash
	}
	return t.hashes[maphash.String(d.seed, name)%uint64(len(t.hashes))]
}

// anyHash is one that costs what new ones do.
var anyHash = Hash{
	text:    "none",
	salt:    make([]byte, argonSalt),
	tag:     make([]byte, argonTag),
	memory:  argonMemory,
	passes:  argonPasses,
	threads: argonThreads,
}
