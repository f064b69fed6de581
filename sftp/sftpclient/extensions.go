package sftpclient

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/haul-project/haul/sftp/internal/mux"
	"github.com/haul-project/haul/sftp/internal/wire"
)

// The following methods need extensions of the protocol. If the server does not offer one, the
// error is errors.ErrUnsupported.

// ExpandPath is like RealPath for a name that may begin with ~ or ~USER (expand-path@openssh.com).
func (c *Client) ExpandPath(ctx context.Context, name string) (string, error) {
	if !c.server.Ext.Has(wire.ExtExpandPath) {
		return "", pathError("expand", name, errors.ErrUnsupported)
	}
	var real string
	err := c.one(ctx, "expand", name, mux.Call{Take: mux.TakeName(&real), Again: true}, wire.AppendExpandPath)
	return real, err
}

// HomeDir returns the home directory of a user (home-directory). If user is "", it returns the
// directory to which relative names refer, which needs no extension.
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

// maxIDs is how many user IDs and how many group IDs one request may contain: their names must fit
// into one packet.
const maxIDs = 256

// OwnerNames returns the names of user IDs and of group IDs, in the same order
// (users-groups-by-id@openssh.com). A name that the server does not know is "".
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
			Take: mux.TakeExtended(func(p *wire.Reply) error {
				us, gs, err := p.UsersGroups()
				someUsers, someGroups = texts(us), texts(gs)
				if err == nil && (len(someUsers) != len(u) || len(someGroups) != len(g)) {
					err = fmt.Errorf("%d names for %d users, and %d for %d groups", len(someUsers), len(u), len(someGroups), len(g))
				}
				return err
			}),
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

// Hash has the server compute the hash of n bytes of a file, from off on; an n of 0 means up to the
// end of the file. algorithms lists names such as "sha256", "sha512", "sha1" and "md5" in the order
// of preference, and the server chooses one (check-file-name of
// draft-ietf-secsh-filexfer-extensions).
func (c *Client) Hash(ctx context.Context, name string, off, n int64, algorithms ...string) (algorithm string, sum []byte, err error) {
	if !c.server.Ext.Has(wire.ExtCheckFileName) {
		return "", nil, pathError("hash", name, errors.ErrUnsupported)
	}
	if off < 0 || n < 0 || off > wire.MaxFile || len(algorithms) == 0 {
		return "", nil, pathError("hash", name, fs.ErrInvalid)
	}
	list := strings.Join(algorithms, ",")
	k := mux.Call{Again: true, Slow: true, Take: mux.TakeHash(&algorithm, &sum)}
	err = c.one(ctx, "hash", name, k, func(b []byte, id uint32, name string) []byte {
		return wire.AppendCheckFileName(b, id, name, list, off, n, 0)
	})
	if err != nil {
		return "", nil, err
	}
	return algorithm, sum, nil
}

// Hash is like [Client.Hash] for the open file (check-file-handle). The hash includes data that was
// written before. An n of 0 is not supported.
func (f *File) Hash(ctx context.Context, off, n int64, algorithms ...string) (algorithm string, sum []byte, err error) {
	switch {
	case !f.c.server.Ext.Has(wire.ExtCheckFileHandle) || n == 0:
		return "", nil, f.fail("hash", errors.ErrUnsupported)
	case off < 0 || n < 0 || off > wire.MaxFile || len(algorithms) == 0:
		return "", nil, f.fail("hash", fs.ErrInvalid)
	}
	if err := f.awaitWrites(ctx); err != nil {
		return "", nil, err
	}
	list := strings.Join(algorithms, ",")
	k := mux.Call{Again: true, Slow: true, Take: mux.TakeHash(&algorithm, &sum)}
	err = f.remote.Ask(ctx, k, func(b []byte, id uint32, h string) []byte {
		return wire.AppendCheckFileHandle(b, id, h, list, off, n, 0)
	})
	if err != nil {
		return "", nil, f.fail("hash", err)
	}
	return algorithm, sum, nil
}
