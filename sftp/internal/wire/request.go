package wire

import (
	"fmt"
	"iter"
	"math"
)

// A Request is a request of a client. Its Type determines which fields are set:
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
// For EXTENDED, the Extension determines that:
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
// The other fields are zero. Slices refer to the bytes of the packet. An offset plus a length never
// overflows.
type Request struct {
	Type      Type
	Extension Extension // zero unless Type is EXTENDED
	ID        uint32    // to be repeated in the reply; 0 for INIT
	Version   uint32    // the highest version that the client speaks
	Flags     OpenFlags // to be checked: see [OpenFlags.Check]
	BlockSize uint32    // bytes per hash, at least MinCheckBlock; 0 means one hash of everything
	Offset    int64     // offset in the file
	Length    int64     // number of bytes; 0 means up to the end of the file, except in READ
	ToOffset  int64     // offset in the file of ToHandle
	Attrs     Attrs     // the attributes to set, or the attributes of a new file

	Handle     []byte // an open file or directory; at most MaxHandle bytes
	ToHandle   []byte // the file to write to; at most MaxHandle bytes
	Path       []byte // at most MaxPath bytes; "" means the directory in which the session starts
	NewPath    []byte // the new name; at most MaxPath bytes
	Target     []byte // the target of a symbolic link; at most MaxPath bytes
	Data       []byte // the bytes to write at Offset
	Algorithms []byte // names of hashes, separated by commas, in the order of preference
	User       []byte // a user's name; "" means the user of the session
	Users      IDs    // numeric IDs of users
	Groups     IDs    // numeric IDs of groups
}

// MinCheckBlock is the smallest number of bytes that each hash of a check-file reply may cover,
// unless a single hash covers everything. The server still has to check that all hashes fit into
// its reply.
const MinCheckBlock = 256

// IDs holds numeric IDs of users or groups as received.
type IDs []byte

// Len returns the number of IDs.
func (i IDs) Len() int { return len(i) / 4 }

// All yields each ID in turn.
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

// ParseRequest parses one whole packet from a client (draft, section 6). It ignores bytes after the
// last field, as OpenSSH does. An error is always an [*Error], which says how to answer. A path
// that is too long is answered with BadMessage like any malformed request, as in OpenSSH.
func ParseRequest(b []byte) (Request, error) {
	h, err := whole(b)
	if err != nil {
		return Request{}, err
	}
	q := Request{Type: h.Type, ID: h.ID}
	r := reader{b: b[HeaderSize:]}
	switch h.Type {
	case TypeInit:
		// A client may announce extensions after the version. No server uses them, so they are
		// ignored.
		q.Version, q.ID = h.ID, 0
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
		// The draft has the two paths in the opposite order. OpenSSH's server once read them in the
		// wrong order, and clients came to rely on that (PROTOCOL, section 4.1).
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

// unsupported returns the error for a well-formed request that is not known.
func (h Header) unsupported(field, problem string) *Error {
	e := h.error(field, problem)
	e.Status = Unsupported
	return e
}

// extended reads the fields after the name of an extended request.
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

// ids reads a string that consists of numeric IDs.
func (r *reader) ids(field string) IDs {
	b := r.bytes(field, MaxPacket)
	if len(b)%4 != 0 {
		r.fail(field, fmt.Sprintf("%d bytes, which are no whole number of ids", len(b)))
		return nil
	}
	return IDs(b)
}
