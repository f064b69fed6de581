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
	ExtPosixRename     Extension = 1 + iota // rename, and replace an existing file
	ExtStatVFS                              // space of a file system, by path
	ExtFstatVFS                             // space of a file system, by handle
	ExtHardlink                             // give a file a second name
	ExtFsync                                // write a file's data to the disk
	ExtLsetstat                             // set attributes of a symbolic link itself
	ExtLimits                               // limits of the server
	ExtExpandPath                           // REALPATH that expands ~
	ExtCopyData                             // copy between two open files
	ExtHomeDirectory                        // home directory of a user
	ExtUsersGroupsByID                      // names for numeric IDs
	ExtCheckFileHandle                      // hashes of a file's data, by handle
	ExtCheckFileName                        // hashes of a file's data, by path
	ExtCheckFile                            // check-file-handle under its older name, which paramiko uses

	numExtensions
)

// extensions holds the names of the extensions and their data in VERSION. For OpenSSH's extensions,
// the data is their version.
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

// extensionNamed returns the extension with the given name, or zero.
func extensionNamed(name []byte) Extension {
	for e := Extension(1); e < numExtensions; e++ {
		if string(name) == extensions[e].Name {
			return e
		}
	}
	return 0
}

// Extensions is a set of extensions.
type Extensions uint32

// AllExtensions is the set of all extensions that this package knows.
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

// Pairs returns the pairs by which a server announces these extensions: see [AppendVersion].
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
	Data string // data of the extension; for OpenSSH's extensions, the version
}

// Pairs holds extension pairs as received, in their order.
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

// Known returns the announced extensions that this package supports. An extension with an unknown
// version does not count. The data of check-file is ignored, because it differs from server to
// server. A server that announces check-file may support all three check-file requests, since some
// servers announce all three under this name.
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

// pairs reads the rest of the packet as extension pairs, of which there may be MaxPairs.
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

// AppendInit appends an INIT, which opens a session. The draft allows clients to announce
// extensions in INIT, but they announce none.
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
