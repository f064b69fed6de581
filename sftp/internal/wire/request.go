package wire

import (
	"fmt"
	"iter"
	"math"
)

// A Request is what a client asks for. The Type says which fields count:
//
//	INIT                                       Version
//	OPEN                                       Path, Flags, Attrs
//	CLOSE, FSTAT, READDIR                      Handle
//	READ                                       Handle, Offset, Length
//	WRITE                                      Handle, Offset, Data
//	LSTAT, STAT, OPENDIR, REMOVE, RMDIR,
//	REALPATH, READLINK                         Path
//	SETSTAT, MKDIR                             Path, Attrs
//	FSETSTAT                                   Handle, Attrs
//	RENAME                                     Path, NewPath
//	SYMLINK                                    Path, Target
//
// and if that is EXTENDED, on the Extension:
//
//	posix-rename@openssh.com                   Path, NewPath
//	hardlink@openssh.com                       Path, NewPath
//	statvfs@openssh.com                        Path
//	expand-path@openssh.com                    Path
//	fstatvfs@openssh.com, fsync@openssh.com    Handle
//	lsetstat@openssh.com                       Path, Attrs
//	limits@openssh.com                         none
//	copy-data                                  Handle, Offset, Length, ToHandle, ToOffset
//	home-directory                             User
//	users-groups-by-id@openssh.com             Users, Groups
//	check-file-handle, check-file              Handle, Algorithms, Offset, Length, BlockSize
//	check-file-name                            Path, Algorithms, Offset, Length, BlockSize
//
// The others are zero. Slices are views of the packet. An offset plus a length
// never overflows.
type Request struct {
	Type      Type
	Extension Extension // zero unless Type is EXTENDED
	ID        uint32    // to give back in the reply; INIT has none
	Version   uint32    // the highest that the client speaks
	Flags     OpenFlags // to be checked: see [OpenFlags.Check]
	BlockSize uint32    // bytes a hash, at least MinCheckBlock; 0: one hash of all
	Offset    int64     // where in the file to begin
	Length    int64     // bytes; 0 means up to the end, except in READ
	ToOffset  int64     // where in the file of ToHandle to begin
	Attrs     Attrs     // to be set; of a new file, those it should have

	Handle     []byte // names an open file or directory; at most MaxHandle bytes
	ToHandle   []byte // the one to be written, likewise
	Path       []byte // at most MaxPath bytes; an empty one is the directory one begins in
	NewPath    []byte // the name to be given, likewise
	Target     []byte // what a symbolic link is to say, likewise
	Data       []byte // to be written at Offset
	Algorithms []byte // names of hashes with commas between, the most wanted first
	User       []byte // a user's name; an empty one is the user of the session
	Users      IDs    // numbers of users
	Groups     IDs    // numbers of groups
}

// MinCheckBlock is how many bytes a hash of check-file must be of, at the
// least, unless there is one hash of all. A server still has to see that all
// hashes fit into its reply.
const MinCheckBlock = 256

// IDs are numbers of users or groups as they came.
type IDs []byte

// Len returns how many there are.
func (i IDs) Len() int { return len(i) / 4 }

// All yields each in its turn.
func (i IDs) All() iter.Seq[uint32] {
	return func(yield func(id uint32) bool) {
		r := reader{b: i}
		for range i.Len() {
			if !yield(r.uint32("")) {
				return
			}
		}
	}
}

// ParseRequest reads one whole packet that a client sent (draft, section 6).
// Bytes behind its last field are passed over, as OpenSSH does. An error is
// always an [*Error], and says what to answer. A path that is too long gets
// BadMessage like all that is malformed, which is also OpenSSH's answer.
func ParseRequest(b []byte) (Request, error) {
	h, err := whole(b)
	if err != nil {
		return Request{}, err
	}
	q := Request{Type: h.Type, ID: h.ID}
	r := reader{b: b[HeaderSize:]}
	switch h.Type {
	case TypeInit:
		q.Version, q.ID = h.ID, 0 // what the client may announce behind it, no server uses
	case TypeOpen:
		q.Path = r.path("path")
		q.Flags = OpenFlags(r.uint32("flags"))
		q.Attrs = r.attrs()
	case TypeClose, TypeFstat, TypeReaddir:
		q.Handle = r.handle("handle")
	case TypeRead:
		q.Handle = r.handle("handle")
		q.Offset = r.offset("offset")
		q.Length = int64(r.uint32("length"))
	case TypeWrite:
		q.Handle = r.handle("handle")
		q.Offset = r.offset("offset")
		q.Data = r.bytes("data", MaxPacket)
	case TypeLstat, TypeStat, TypeOpendir, TypeRemove, TypeRmdir, TypeRealpath, TypeReadlink:
		q.Path = r.path("path")
	case TypeSetstat, TypeMkdir:
		q.Path = r.path("path")
		q.Attrs = r.attrs()
	case TypeFsetstat:
		q.Handle = r.handle("handle")
		q.Attrs = r.attrs()
	case TypeRename:
		q.Path = r.path("old path")
		q.NewPath = r.path("new path")
	case TypeSymlink:
		// The draft has these the other way round. OpenSSH once got that wrong,
		// and clients came to rely on it (PROTOCOL, section 4.1).
		q.Target = r.path("target path")
		q.Path = r.path("link path")
	case TypeExtended: // draft, section 8
		name := r.bytes("extension", MaxPacket)
		q.Extension = extensionNamed(name)
		if q.Extension == 0 && !r.failed() {
			return Request{}, h.unsupported("extension", fmt.Sprintf("%q is not known", name[:min(len(name), maxMessage)]))
		}
		r.extended(&q)
	default:
		return Request{}, h.unsupported("type", "not a request")
	}
	if r.failed() {
		e := r.error(h)
		e.Extension = q.Extension
		return Request{}, e
	}
	return q, nil
}

// unsupported is the error for a request that is well formed, but not known.
func (h Header) unsupported(field, problem string) *Error {
	e := h.error(field, problem)
	e.Status = Unsupported
	return e
}

// extended takes what follows the name of an extended request.
func (r *reader) extended(q *Request) {
	switch q.Extension {
	case ExtPosixRename, ExtHardlink:
		q.Path = r.path("old path")
		q.NewPath = r.path("new path")
	case ExtStatVFS, ExtExpandPath:
		q.Path = r.path("path")
	case ExtFstatVFS, ExtFsync:
		q.Handle = r.handle("handle")
	case ExtLsetstat:
		q.Path = r.path("path")
		q.Attrs = r.attrs()
	case ExtLimits:
	case ExtCopyData:
		q.Handle = r.handle("handle read")
		q.Offset = r.offset("offset read")
		q.Length = r.size("length")
		q.ToHandle = r.handle("handle written")
		q.ToOffset = r.offset("offset written")
		q.Length = min(q.Length, math.MaxInt64-max(q.Offset, q.ToOffset))
	case ExtHomeDirectory:
		q.User = r.path("user name")
	case ExtUsersGroupsByID:
		q.Users = r.ids("users")
		q.Groups = r.ids("groups")
	case ExtCheckFileHandle, ExtCheckFileName, ExtCheckFile:
		if q.Extension == ExtCheckFileName {
			q.Path = r.path("path")
		} else {
			q.Handle = r.handle("handle")
		}
		q.Algorithms = r.bytes("hash algorithms", maxAlgorithms)
		q.Offset = r.offset("offset")
		q.Length = min(r.size("length"), math.MaxInt64-q.Offset)
		q.BlockSize = r.uint32("block size")
		if q.BlockSize > 0 && q.BlockSize < MinCheckBlock {
			r.fail("block size", fmt.Sprintf("%d, and at least %d are wanted", q.BlockSize, MinCheckBlock))
		}
	}
}

// ids takes a string of numbers.
func (r *reader) ids(field string) IDs {
	b := r.bytes(field, MaxPacket)
	if len(b)%4 != 0 {
		r.fail(field, fmt.Sprintf("%d bytes, which are no whole number of ids", len(b)))
		return nil
	}
	return IDs(b)
}
