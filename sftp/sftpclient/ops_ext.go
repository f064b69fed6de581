package sftpclient

import (
	"github.com/haul-project/haul/sftp/internal/mux"

	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"strings"

	"github.com/haul-project/haul/sftp/internal/wire"
	"github.com/haul-project/haul/store"
)

// What follows is not in version 3 of the protocol. A server that does not offer
// what it takes gives errors.ErrUnsupported.

// takeStatVFS expects the state of a file system.
func takeStatVFS(v *wire.StatVFS) func(*wire.Reply) error {
	return func(p *wire.Reply) (err error) {
		if p.Type != wire.TypeExtendedReply {
			return mux.Unexpected(p, wire.TypeExtendedReply)
		}
		*v, err = p.StatVFS()
		return mux.Violation(err)
	}
}

// spaceOf says in bytes what a server says in fragments. No part is more than the whole:
// else what is used would be negative.
func spaceOf(v wire.StatVFS) store.Space {
	unit := v.FragmentSize
	if unit == 0 {
		unit = v.BlockSize
	}
	bytes := func(n uint64) int64 {
		if unit > 0 && n > math.MaxInt64/unit {
			return math.MaxInt64
		}
		return int64(n * unit)
	}
	count := func(n uint64) int64 { return int64(min(n, math.MaxInt64)) }
	free := min(v.FreeBlocks, v.Blocks)
	return store.Space{
		Total: bytes(v.Blocks), Free: bytes(free), Available: bytes(min(v.AvailableBlocks, free)),
		BlockSize: count(unit),
		Files:     count(v.Files), FreeFiles: count(v.FreeFiles), AvailableFiles: count(v.AvailableFiles),
		MaxName: int(min(v.MaxName, math.MaxInt32)), ID: v.ID, ReadOnly: v.Flags&wire.StatVFSReadOnly != 0,
	}
}

// Space returns how much room there is where a name is (statvfs@openssh.com).
func (c *Client) Space(ctx context.Context, name string) (store.Space, error) {
	var v wire.StatVFS
	if !c.server.Ext.Has(wire.ExtStatVFS) {
		return store.Space{}, pathError("space", name, errors.ErrUnsupported)
	}
	if err := c.one(ctx, "space", name, mux.Call{Take: takeStatVFS(&v), Again: true}, wire.AppendStatVFS); err != nil {
		return store.Space{}, err
	}
	return spaceOf(v), nil
}

// ExpandPath is RealPath for a name that may begin with a tilde, or that with a
// user's name (expand-path@openssh.com).
func (c *Client) ExpandPath(ctx context.Context, name string) (string, error) {
	if !c.server.Ext.Has(wire.ExtExpandPath) {
		return "", pathError("expand", name, errors.ErrUnsupported)
	}
	var real string
	err := c.one(ctx, "expand", name, mux.Call{Take: mux.TakeName(&real), Again: true}, wire.AppendExpandPath)
	return real, err
}

// HomeDir returns the directory in which a user is at home (home-directory). For
// an empty name it is the directory that relative names begin at, which every
// server can tell.
func (c *Client) HomeDir(ctx context.Context, user string) (string, error) {
	if user == "" {
		return c.RealPath(ctx, ".")
	}
	if !c.server.Ext.Has(wire.ExtHomeDirectory) {
		return "", fmt.Errorf("home directory of %s: %w", user, errors.ErrUnsupported)
	}
	var home string
	err := c.mux.Do(ctx, &mux.Call{Take: mux.TakeName(&home), Again: true, Build: pathCall(wire.AppendHomeDirectory, user)})
	if err != nil {
		return "", fmt.Errorf("home directory of %s: %w", user, err)
	}
	return home, nil
}

// maxIDs is how many numbers of users and groups are asked for at once: their
// names have to fit into a packet.
const maxIDs = 256

// OwnerNames returns the names for numbers of users and groups, in their order,
// and an empty one where the server has none (users-groups-by-id@openssh.com).
func (c *Client) OwnerNames(ctx context.Context, uids, gids []uint32) (users, groups []string, err error) {
	if !c.server.Ext.Has(wire.ExtUsersGroupsByID) {
		return nil, nil, fmt.Errorf("names of owners: %w", errors.ErrUnsupported)
	}
	for len(uids) > 0 || len(gids) > 0 {
		u, g := uids[:min(len(uids), maxIDs)], gids[:min(len(gids), maxIDs)]
		uids, gids = uids[len(u):], gids[len(g):]
		var someUsers, someGroups []string
		err := c.mux.Do(ctx, &mux.Call{Again: true,
			Build: func(b []byte, id uint32) []byte { return wire.AppendUsersGroupsByID(b, id, u, g) },
			Take: func(p *wire.Reply) error {
				if p.Type != wire.TypeExtendedReply {
					return mux.Unexpected(p, wire.TypeExtendedReply)
				}
				us, gs, err := p.UsersGroups()
				someUsers, someGroups = texts(us), texts(gs)
				if err == nil && (len(someUsers) != len(u) || len(someGroups) != len(g)) {
					err = fmt.Errorf("%d names for %d users, and %d for %d groups", len(someUsers), len(u), len(someGroups), len(g))
				}
				return mux.Violation(err)
			},
		})
		if err != nil {
			return nil, nil, fmt.Errorf("names of owners: %w", err)
		}
		users, groups = append(users, someUsers...), append(groups, someGroups...)
	}
	return users, groups, nil
}

func texts(s wire.Strings) (list []string) {
	for one := range s.All() {
		list = append(list, string(one))
	}
	return list
}

// Hash returns the hash of n bytes of a file, from off on, as the server has
// computed it, and what it chose of the algorithms, of which the most wanted is
// first: names such as "sha256", "sha512", "sha1", "md5" (check-file-name, from
// draft-ietf-secsh-filexfer-extensions). n 0 is all up to the end.
func (c *Client) Hash(ctx context.Context, name string, off, n int64, algorithms ...string) (algorithm string, sum []byte, err error) {
	if !c.server.Ext.Has(wire.ExtCheckFileName) {
		return "", nil, pathError("hash", name, errors.ErrUnsupported)
	}
	if off < 0 || n < 0 || off > maxFile || len(algorithms) == 0 {
		return "", nil, pathError("hash", name, fs.ErrInvalid)
	}
	list := strings.Join(algorithms, ",")
	k := mux.Call{Again: true, Slow: true, Take: takeHash(&algorithm, &sum)}
	err = c.one(ctx, "hash", name, k, func(b []byte, id uint32, name string) []byte {
		return wire.AppendCheckFileName(b, id, name, list, off, n, 0)
	})
	if err != nil {
		return "", nil, err
	}
	return algorithm, sum, nil
}

// Hash is [Client.Hash] of the open file (check-file-handle). n 0 is no bytes. What
// was written is part of it.
func (f *File) Hash(ctx context.Context, off, n int64, algorithms ...string) (algorithm string, sum []byte, err error) {
	switch {
	case !f.c.server.Ext.Has(wire.ExtCheckFileHandle) || n == 0:
		return "", nil, f.fail("hash", errors.ErrUnsupported)
	case off < 0 || n < 0 || off > maxFile || len(algorithms) == 0:
		return "", nil, f.fail("hash", fs.ErrInvalid)
	}
	if err := f.awaitWrites(ctx); err != nil {
		return "", nil, err
	}
	list := strings.Join(algorithms, ",")
	k := mux.Call{Again: true, Slow: true, Take: takeHash(&algorithm, &sum)}
	err = f.remote.Ask(ctx, k, func(b []byte, id uint32, h string) []byte {
		return wire.AppendCheckFileHandle(b, id, h, list, off, n, 0)
	})
	if err != nil {
		return "", nil, f.fail("hash", err)
	}
	return algorithm, sum, nil
}

// takeHash expects a hash.
func takeHash(algorithm *string, sum *[]byte) func(*wire.Reply) error {
	return func(p *wire.Reply) error {
		if p.Type != wire.TypeExtendedReply {
			return mux.Unexpected(p, wire.TypeExtendedReply)
		}
		chosen, hashes, err := p.CheckFile()
		*algorithm, *sum = string(chosen), append([]byte(nil), hashes...)
		return mux.Violation(err)
	}
}

// maxCopyData is how many bytes the server is asked to copy at once, so that
// somebody who waits sees now and then that it goes on.
const maxCopyData = 256 << 20

// CopyFile copies a file on the server, and returns how many bytes it has
// (copy-data). The data never leaves the server. The copy appears when it is
// whole, with the permissions of the original, and replaces what has its name.
func (c *Client) CopyFile(ctx context.Context, from, to string) (int64, error) {
	n, err := c.copyFile(ctx, from, to)
	if err != nil {
		return n, linkError("copy", from, to, err)
	}
	return n, nil
}

func (c *Client) copyFile(ctx context.Context, from, to string) (n int64, err error) {
	if !c.server.Ext.Has(wire.ExtCopyData) {
		return 0, errors.ErrUnsupported
	}
	src, err := c.Open(ctx, from)
	if err != nil {
		return 0, err
	}
	defer src.Close()
	fi, err := src.Stat()
	if err != nil {
		return 0, err
	}
	// A handle is good on its lane only, and this takes two.
	a, err := src.remote.Handle(ctx)
	if err != nil {
		return 0, err
	}
	u, err := c.create(ctx, to, store.Create{Size: fi.Size(), Perm: fi.Mode().Perm()}, a.Lane)
	if err != nil {
		return 0, err
	}
	defer u.Close()
	b, err := u.f.remote.Handle(ctx)
	if err != nil {
		return 0, err
	}
	if b.Lane != a.Lane {
		return 0, fmt.Errorf("%w: no session has both files open", ErrConnectionLost)
	}
	u.f.wrote()
	for n < fi.Size() {
		some := min(fi.Size()-n, maxCopyData)
		err := c.mux.Do(ctx, &mux.Call{Lane: a.Lane, Take: mux.TakeOK, Slow: true, Build: func(p []byte, id uint32) []byte {
			return wire.AppendCopyData(p, id, a.Handle, n, some, b.Handle, n)
		}})
		if err != nil {
			return n, err
		}
		n += some
	}
	if fi, err = u.f.Stat(); err != nil { // the original may have become shorter
		return n, err
	}
	return fi.Size(), u.Commit()
}
