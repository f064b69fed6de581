package sftp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"

	"github.com/haul-project/haul/sftp/internal/wire"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/users"
)

// extended answers an extended request.
func (s *session) extended(q *wire.Request) error {
	switch q.Extension {
	case wire.ExtPosixRename:
		return s.rename(q, true)
	case wire.ExtHardlink:
		return s.link(q)
	case wire.ExtStatVFS:
		name, err := s.conn.paths.resolve(q.Path)
		return s.space(name, err)
	case wire.ExtFstatVFS:
		return s.fstatvfs(q)
	case wire.ExtFsync:
		return s.fsync(q)
	case wire.ExtLsetstat:
		if q.Attrs.Has(wire.AttrSize) { // a symbolic link has no size to set
			return fs.ErrInvalid
		}
		return s.setstat(q, false)
	case wire.ExtLimits:
		s.out.b = wire.AppendLimitsReply(s.out.b, q.ID, wire.Limits{
			Packet:  256 << 10, // the limit that OpenSSH announces
			Read:    maxData,
			Write:   maxData,
			Handles: uint64(s.conn.server.maxHandles()),
		})
		return errAnswered
	case wire.ExtExpandPath:
		p, err := s.conn.paths.expand(string(q.Path))
		return s.answerPath(q, p, err)
	case wire.ExtHomeDirectory:
		home, ok := s.conn.paths.homeOf(string(q.User))
		if !ok {
			return errNoUser
		}
		return s.name(home, nil)
	case wire.ExtUsersGroupsByID:
		return s.owners(q)
	case wire.ExtCopyData:
		return s.copyData(q)
	case wire.ExtCheckFileHandle, wire.ExtCheckFileName, wire.ExtCheckFile:
		return s.checkFile(q)
	}
	return errors.ErrUnsupported
}

// errNoUser is the error of a home-directory request for a user whose home directory is unknown.
var errNoUser = errors.New("no such user")

// answerPath answers with the real path of p, or with err if it is set.
func (s *session) answerPath(q *wire.Request, p string, err error) error {
	if bytes.IndexByte(q.Path, 0) >= 0 {
		return fs.ErrInvalid
	}
	if err == nil {
		p, err = s.conn.paths.realpath(p)
	}
	return s.name(p, err)
}

func (s *session) fstatvfs(q *wire.Request) error {
	h := s.handles.get(q.Handle)
	switch {
	case h == nil:
		return errNoHandle
	case h.upload != nil: // the file has no name yet, so the reply describes its directory's file system
		return s.space(path.Dir(h.name), nil)
	}
	return s.space(h.name, nil)
}

// space answers statvfs for the file system of the file `name`, or with err if it is set.
func (s *session) space(name string, err error) error {
	var sp store.Space
	if err == nil {
		sp, err = s.conn.tree.Space(s.ctx, name)
	}
	if err != nil {
		return err
	}
	size := max(1, sp.BlockSize)
	v := wire.StatVFS{
		BlockSize:       uint64(size),
		FragmentSize:    uint64(size),
		Blocks:          uint64(max(0, sp.Total) / size),
		FreeBlocks:      uint64(max(0, sp.Free) / size),
		AvailableBlocks: uint64(max(0, sp.Available) / size),
		Files:           uint64(max(0, sp.Files)),
		FreeFiles:       uint64(max(0, sp.FreeFiles)),
		AvailableFiles:  uint64(max(0, sp.AvailableFiles)),
		ID:              sp.ID,
		MaxName:         uint64(max(0, sp.MaxName)),
	}
	if sp.ReadOnly {
		v.Flags |= wire.StatVFSReadOnly
	}
	s.out.b = wire.AppendStatVFSReply(s.out.b, s.request.ID, v)
	return errAnswered
}

const (
	// maxOwners is how many IDs one users-groups-by-id@openssh.com request may contain. OpenSSH's
	// client asks for the IDs of one listing at a time.
	maxOwners = 4096

	// maxOwnerName is the length of the longest user or group name in a reply, in bytes. Longer
	// names count as unknown.
	maxOwnerName = 256
)

// owners answers users-groups-by-id@openssh.com. The reply has an empty name for each unknown ID.
func (s *session) owners(q *wire.Request) error {
	if q.Users.Len()+q.Groups.Len() > maxOwners {
		return fs.ErrInvalid
	}
	size := smallReply
	named := func(ids wire.IDs, group bool) (names []string) {
		for id := range ids.All() {
			name := ""
			if s.conn.server.Owner != nil {
				name = s.conn.server.Owner(id, group)
			}
			if len(name) > maxOwnerName {
				name = ""
			}
			size += 4 + len(name)
			names = append(names, name)
		}
		return names
	}
	owners, groups := named(q.Users, false), named(q.Groups, true)
	if size > maxData {
		return fmt.Errorf("%d bytes of names", size)
	}
	s.room(size)
	s.out.b = wire.AppendUsersGroupsReply(s.out.b, q.ID, owners, groups)
	return errAnswered
}

// copyData answers copy-data. The reply is sent after the copy, so the client has to wait for it.
func (s *session) copyData(q *wire.Request) error {
	from, to := s.handles.file(q.Handle), s.handles.file(q.ToHandle)
	switch {
	case from == nil || to == nil:
		return errNoHandle
	case from.file == nil:
		return fs.ErrPermission
	}
	length, err := copyLength(from, to, q)
	if err != nil {
		return err
	}
	s.flush()
	if err = copyRange(s.ctx, from, to, q, length); err == nil && length < q.Length {
		err = io.EOF
	}
	if err == nil && q.Length == 0 && to.upload != nil && s.conn.account.Access == users.Full {
		// Publish the file without waiting for CLOSE: the copy of a whole file is complete, and
		// asyncssh's remote_copy never closes the target.
		err = to.upload.publishInPlace()
	}
	from.transfer.fail(err)
	to.transfer.fail(err)
	return err
}

var errSameFile = errors.New("both are the same file")

// copyLength returns the number of bytes that copy-data copies: at most the size that the source
// has now, even if it grows meanwhile. It refuses to copy a file to itself, even under another
// name.
func copyLength(from, to *sessionHandle, q *wire.Request) (int64, error) {
	source, err := from.file.Stat()
	if err != nil {
		return 0, err
	}
	var target fs.FileInfo // stays nil for a hidden upload, which cannot be the same file as the source
	if to.upload != nil {
		target, err = to.upload.placedInfo()
	} else {
		target, err = to.file.Stat()
	}
	switch {
	case err != nil:
		return 0, err
	case from == to, from.name == to.name, target != nil && store.SameFile(source, target):
		return 0, errSameFile
	}
	length := max(0, source.Size()-q.Offset)
	if q.Length > 0 {
		length = min(length, q.Length)
	}
	return length, nil
}

// copyRange copies `length` bytes, or fewer if the source is truncated meanwhile. It reads even if
// there is nothing to copy, so that it fails if the source was not opened for reading.
func copyRange(ctx context.Context, from, to *sessionHandle, q *wire.Request, length int64) error {
	buf := bigBuffers.Get().(*[bigBuffer]byte)
	defer bigBuffers.Put(buf)
	for done := int64(0); ; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, readErr := from.file.ReadAt(buf[:min(int64(len(buf)), length-done)], q.Offset+done)
		if n > 0 {
			if _, err := to.writeAt(buf[:n], q.ToOffset+done); err != nil {
				return err
			}
		}
		done += int64(n)
		from.conn.touch()
		switch {
		case readErr == io.EOF && (q.Length == 0 || done == length):
			return nil
		case readErr != nil:
			return readErr
		case done == length:
			return nil
		case n == 0:
			return io.ErrNoProgress
		}
	}
}
