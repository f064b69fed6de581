package wire

import (
	"fmt"
	"iter"
)

// An Extension is a kind of extended request.
type Extension uint8

// The extensions: OpenSSH's (PROTOCOL, section 4, in the order in which its
// server announces them), and check-file (draft-ietf-secsh-filexfer-extensions).
const (
	ExtPosixRename     Extension = 1 + iota // rename over what may be there
	ExtStatVFS                              // how full a file system is, by path
	ExtFstatVFS                             // the same, by handle
	ExtHardlink                             // give a file a second name
	ExtFsync                                // put a file's data on the disk
	ExtLsetstat                             // set attributes of a link itself
	ExtLimits                               // what the server can take
	ExtExpandPath                           // REALPATH that knows ~
	ExtCopyData                             // copy between two open files
	ExtHomeDirectory                        // where a user is at home
	ExtUsersGroupsByID                      // names for numbers
	ExtCheckFileHandle                      // hashes of a file's data, by handle
	ExtCheckFileName                        // the same, by path
	ExtCheckFile                            // the first by its older name, which paramiko uses

	numExtensions
)

// extensions has the names of the extensions, and their data in VERSION: of OpenSSH's,
// their version.
var extensions = [numExtensions]Pair{
	ExtPosixRename:     {"posix-rename@openssh.com", "1"},
	ExtStatVFS:         {"statvfs@openssh.com", "2"},
	ExtFstatVFS:        {"fstatvfs@openssh.com", "2"},
	ExtHardlink:        {"hardlink@openssh.com", "1"},
	ExtFsync:           {"fsync@openssh.com", "1"},
	ExtLsetstat:        {"lsetstat@openssh.com", "1"},
	ExtLimits:          {"limits@openssh.com", "1"},
	ExtExpandPath:      {"expand-path@openssh.com", "1"},
	ExtCopyData:        {"copy-data", "1"},
	ExtHomeDirectory:   {"home-directory", "1"},
	ExtUsersGroupsByID: {"users-groups-by-id@openssh.com", "1"},
	ExtCheckFileHandle: {"check-file-handle", "1"},
	ExtCheckFileName:   {"check-file-name", "1"},
	ExtCheckFile:       {"check-file", "1"},
}

// String returns the extension's name on the wire.
func (e Extension) String() string {
	if e == 0 || e >= numExtensions {
		return "unknown extension"
	}
	return extensions[e].Name
}

// extensionNamed returns the extension of that name, or zero.
func extensionNamed(name []byte) Extension {
	for e := Extension(1); e < numExtensions; e++ {
		if string(name) == extensions[e].Name {
			return e
		}
	}
	return 0
}

// Extensions is a set of them.
type Extensions uint32

// AllExtensions is the set of those that this package knows.
const AllExtensions Extensions = 1<<numExtensions - 1<<1

// Has reports whether e is in the set.
func (s Extensions) Has(e Extension) bool { return s&(1<<e) != 0 }

// With returns the set with e in it.
func (s Extensions) With(e Extension) Extensions { return s | 1<<e }

// Without returns the set without e.
func (s Extensions) Without(e Extension) Extensions { return s &^ (1 << e) }

// All yields each extension of the set.
func (s Extensions) All() iter.Seq[Extension] {
	return func(yield func(e Extension) bool) {
		for e := Extension(1); e < numExtensions; e++ {
			if s.Has(e) && !yield(e) {
				return
			}
		}
	}
}

// Pairs returns what a server announces that has these: see [AppendVersion].
func (s Extensions) Pairs() []Pair {
	var pairs []Pair
	for e := range s.All() {
		pairs = append(pairs, extensions[e])
	}
	return pairs
}

// A Pair announces an extension in INIT or VERSION (draft, section 4).
type Pair struct {
	Name string
	Data string // what the extension says it is; OpenSSH has its version here
}

// Pairs are extension pairs as they came, in their order.
type Pairs []byte

// All yields the name and the data of each pair.
func (p Pairs) All() iter.Seq2[[]byte, []byte] {
	return func(yield func(name, data []byte) bool) {
		r := reader{b: p}
		for len(r.b) > 0 {
			name, data := r.bytes("", MaxPacket), r.bytes("", MaxPacket)
			if r.failed() || !yield(name, data) {
				return
			}
		}
	}
}

// Known returns which extensions are announced, in a version that is spoken
// here. An unknown version counts as none. The data of check-file is ignored, since every
// server has something else there; and where there is one of that name there may be
// all three kinds, since some servers announce the others
// by it.
func (p Pairs) Known() (s Extensions) {
	for name, data := range p.All() {
		e := extensionNamed(name)
		switch {
		case e == ExtCheckFileHandle || e == ExtCheckFileName:
			s = s.With(e)
		case e == ExtCheckFile:
			s = s.With(ExtCheckFile).With(ExtCheckFileHandle).With(ExtCheckFileName)
		case e != 0 && string(data) == extensions[e].Data:
			s = s.With(e)
		}
	}
	return s
}

// pairs takes all that is left as pairs.
func (r *reader) pairs() Pairs {
	all := r.b
	for n := 0; len(r.b) > 0; n++ {
		if n == MaxPairs {
			r.fail("extensions", fmt.Sprintf("more than %d", MaxPairs))
			break
		}
		r.bytes("extension name", MaxPacket)
		r.bytes("extension data", MaxPacket)
	}
	if r.failed() {
		return nil
	}
	return Pairs(all)
}

// AppendInit appends an INIT, which opens a session. Clients announce nothing
// of their own in it, though the draft would let them.
func AppendInit(b []byte, version uint32) []byte {
	b, at := begin(b, TypeInit, version)
	return end(b, at)
}

// AppendVersion appends a VERSION, a server's answer to INIT.
func AppendVersion(b []byte, version uint32, pairs []Pair) []byte {
	b, at := begin(b, TypeVersion, version)
	for _, p := range pairs {
		b = appendString(appendString(b, p.Name), p.Data)
	}
	return end(b, at)
}
