package sftpclient

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/haul-project/haul/sftp/internal/storewire"
	"github.com/haul-project/haul/sftp/internal/wire"
	"github.com/haul-project/haul/store"
)

// nameIn returns the name in the store for the path of a request.
func nameIn(p []byte) string {
	name := strings.TrimPrefix(path.Clean("/"+string(p)), "/")
	if name == "" {
		return "."
	}
	return name
}

func accessBy(f wire.OpenFlags, a wire.Attrs) store.Access {
	return store.Access{
		Read: f&wire.OpenRead != 0, Write: f&wire.OpenWrite != 0, Append: f&wire.OpenAppend != 0,
		Create: f&wire.OpenCreate != 0, Exclusive: f&wire.OpenExclusive != 0, Truncate: f&wire.OpenTruncate != 0,
		Perm: fs.FileMode(a.Mode & wire.ModePerm),
	}
}

// answer answers a request as OpenSSH's server would.
func (s *fakeSession) answer(q wire.Request) []byte {
	ctx, tree := context.Background(), s.p.tree
	status := func(err error) []byte {
		code, _ := storewire.StatusOf(err)
		return wire.AppendStatus(nil, q.ID, code, "") // no text, because the code says enough
	}
	attrs := func(fi fs.FileInfo, err error) []byte {
		if err != nil {
			return status(err)
		}
		a, _ := storewire.AttrsOf(fi)
		return wire.AppendAttrs(nil, q.ID, a)
	}
	name, to := nameIn(q.Path), nameIn(q.NewPath)
	file, _ := s.handles[string(q.Handle)].(store.Handle)
	switch q.Type {
	case wire.TypeInit:
		return wire.AppendVersion(nil, wire.ProtocolVersion, s.p.ext.Pairs())
	case wire.TypeOpen:
		h, err := tree.OpenFile(ctx, name, accessBy(q.Flags, q.Attrs))
		if err != nil {
			return status(err)
		}
		return wire.AppendHandle(nil, q.ID, s.keep(h))
	case wire.TypeClose:
		return status(s.close(string(q.Handle)))
	case wire.TypeStat:
		return attrs(tree.Stat(ctx, name))
	case wire.TypeLstat:
		return attrs(tree.Lstat(ctx, name))
	case wire.TypeSetstat:
		return status(tree.SetAttr(ctx, name, storewire.AttrOf(q.Attrs), true))
	case wire.TypeOpendir:
		d, err := tree.OpenDir(ctx, name)
		if err != nil {
			return status(err)
		}
		return wire.AppendHandle(nil, q.ID, s.keep(d))
	case wire.TypeReaddir:
		d, ok := s.handles[string(q.Handle)].(store.Entries)
		if !ok {
			return status(fs.ErrInvalid)
		}
		return s.list(q.ID, d)
	case wire.TypeRemove:
		return status(tree.Remove(ctx, name))
	case wire.TypeMkdir:
		return status(tree.Mkdir(ctx, name, fs.FileMode(q.Attrs.Mode&wire.ModePerm)))
	case wire.TypeRmdir:
		return status(tree.RemoveDir(ctx, name))
	case wire.TypeRealpath:
		return wire.AppendName(nil, q.ID, "/"+strings.TrimPrefix(s.real(name), "."))
	case wire.TypeRename:
		return status(tree.Rename(ctx, name, to, false))
	case wire.TypeReadlink:
		target, err := tree.Readlink(ctx, name)
		if errors.Is(err, fs.ErrInvalid) {
			return wire.AppendStatus(nil, q.ID, wire.Failure, "")
		}
		if err != nil {
			return status(err)
		}
		return wire.AppendName(nil, q.ID, target)
	case wire.TypeSymlink:
		return status(tree.Symlink(ctx, string(q.Target), name))
	case wire.TypeExtended:
		return s.extended(q, name, to, file, status)
	}
	if file == nil {
		return wire.AppendStatus(nil, q.ID, wire.Failure, "") // OpenSSH's answer for unknown handles
	}
	switch q.Type {
	case wire.TypeFstat:
		return attrs(file.Stat())
	case wire.TypeFsetstat:
		return status(file.SetAttr(storewire.AttrOf(q.Attrs)))
	case wire.TypeRead:
		b := make([]byte, min(q.Length, int64(max(s.p.lim.Read, wire.SureData))))
		n, err := file.ReadAt(b, q.Offset)
		if n > 0 || len(b) == 0 {
			return wire.AppendData(nil, q.ID, b[:n])
		}
		return status(err)
	case wire.TypeWrite:
		_, err := file.WriteAt(q.Data, q.Offset)
		return status(err)
	}
	return wire.AppendStatus(nil, q.ID, wire.Unsupported, "")
}

// real resolves a symbolic link at the end of a name.
func (s *fakeSession) real(name string) string {
	target, err := s.p.tree.Readlink(context.Background(), name)
	if err != nil {
		return name
	}
	return nameIn([]byte(path.Join(path.Dir(name), target)))
}

// list answers a READDIR with at most 100 names, as OpenSSH does.
func (s *fakeSession) list(id uint32, d store.Entries) []byte {
	into := make([]fs.FileInfo, 100)
	n, err := d.Next(into)
	if n == 0 {
		code, _ := storewire.StatusOf(err)
		return wire.AppendStatus(nil, id, code, "")
	}
	b := wire.AppendNames(nil, id)
	for _, fi := range into[:n] {
		a, _ := storewire.AttrsOf(fi)
		b = wire.AppendEntry(b, 0, fi.Name(), nil, a)
	}
	return b
}

func (s *fakeSession) extended(q wire.Request, name, to string, file store.Handle, status func(error) []byte) []byte {
	ctx, tree := context.Background(), s.p.tree
	if !s.p.ext.Has(q.Extension) {
		return wire.AppendStatus(nil, q.ID, wire.Unsupported, "")
	}
	switch q.Extension {
	case wire.ExtPosixRename:
		return status(tree.Rename(ctx, name, to, true))
	case wire.ExtHardlink:
		return status(tree.Link(ctx, name, to))
	case wire.ExtLsetstat:
		return status(tree.SetAttr(ctx, name, storewire.AttrOf(q.Attrs), false))
	case wire.ExtLimits:
		return wire.AppendLimitsReply(nil, q.ID, s.p.lim)
	case wire.ExtStatVFS, wire.ExtFstatVFS:
		space, err := tree.Space(ctx, ".")
		if err != nil {
			return status(err)
		}
		return wire.AppendStatVFSReply(nil, q.ID, wire.StatVFS{
			FragmentSize: 1, Blocks: uint64(space.Total), FreeBlocks: uint64(space.Free), AvailableBlocks: uint64(space.Available), MaxName: 255,
			Files: uint64(space.Files), FreeFiles: uint64(space.FreeFiles), AvailableFiles: uint64(space.AvailableFiles),
		})
	case wire.ExtFsync:
		if file == nil {
			return status(fs.ErrInvalid)
		}
		return status(file.Sync())
	case wire.ExtExpandPath:
		return wire.AppendName(nil, q.ID, "/"+strings.Replace(name, "~", "home/me", 1))
	case wire.ExtHomeDirectory:
		return wire.AppendName(nil, q.ID, "/home/"+string(q.User))
	case wire.ExtUsersGroupsByID:
		names := func(ids wire.IDs) (list []string) {
			for id := range ids.All() {
				name := ""
				if id < 1000 {
					name = "n" + time.Duration(id).String()
				}
				list = append(list, name)
			}
			return list
		}
		return wire.AppendUsersGroupsReply(nil, q.ID, names(q.Users), names(q.Groups))
	case wire.ExtCheckFileName:
		return wire.AppendCheckFileReply(nil, q.ID, strings.Split(string(q.Algorithms), ",")[0], []byte("hash of "+name))
	case wire.ExtCopyData:
		dst, ok := s.handles[string(q.ToHandle)].(store.Handle)
		if file == nil || !ok {
			return status(fs.ErrInvalid)
		}
		b := make([]byte, q.Length)
		n, _ := file.ReadAt(b, q.Offset)
		_, err := dst.WriteAt(b[:n], q.ToOffset)
		return status(err)
	}
	return wire.AppendStatus(nil, q.ID, wire.Unsupported, "")
}
