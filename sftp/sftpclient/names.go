package sftpclient

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"

	"github.com/haul-project/haul/sftp/internal/mux"
	"github.com/haul-project/haul/sftp/internal/storewire"
	"github.com/haul-project/haul/sftp/internal/wire"
	"github.com/haul-project/haul/store"
)

// Stat describes a file. It follows a symbolic link.
func (c *Client) Stat(ctx context.Context, name string) (fs.FileInfo, error) {
	if a, err, ok := c.mux.PrefetchedAttrs(name); ok {
		if err != nil {
			return nil, pathError("stat", name, err)
		}
		return storewire.InfoOf(path.Base(name), a), nil
	}
	var a wire.Attrs
	if err := c.one(ctx, "stat", name, mux.Call{Take: mux.TakeAttrs(&a), Again: true}, wire.AppendStat); err != nil {
		return nil, err
	}
	return storewire.InfoOf(path.Base(name), a), nil
}

// Lstat describes a file. It does not follow a symbolic link.
func (c *Client) Lstat(ctx context.Context, name string) (fs.FileInfo, error) {
	var a wire.Attrs
	if err := c.one(ctx, "lstat", name, mux.Call{Take: mux.TakeAttrs(&a), Again: true}, wire.AppendLstat); err != nil {
		return nil, err
	}
	return storewire.InfoOf(path.Base(name), a), nil
}

// taken returns err, the error of a request that creates a name. If the server gave no reason and
// the name is in use, taken turns err into an fs.ErrExist.
func taken(ctx context.Context, c *Client, err error, name string) error {
	if !isFailure(err) {
		return err
	}
	if _, e := c.Lstat(ctx, name); e != nil {
		return err
	}
	switch e := err.(type) {
	case *fs.PathError:
		e.Err = exists(e.Err)
	case *os.LinkError:
		e.Err = exists(e.Err)
	}
	return err
}

// Mkdir creates a directory. The server may clear some bits of perm.
func (c *Client) Mkdir(ctx context.Context, name string, perm fs.FileMode) error {
	var a wire.Attrs
	a.SetMode(wire.Mode(perm.Perm()))
	err := c.one(ctx, "mkdir", name, mux.Call{Take: mux.TakeOK}, func(b []byte, id uint32, name string) []byte {
		return wire.AppendMkdir(b, id, name, a)
	})
	return taken(ctx, c, err, name)
}

// MkdirAll creates a directory and its missing parents.
func (c *Client) MkdirAll(ctx context.Context, name string, perm fs.FileMode) error {
	fi, err := c.Stat(ctx, name)
	switch {
	case err == nil && fi.IsDir():
		return nil
	case err == nil:
		return pathError("mkdir", name, fmt.Errorf("%w, and no directory", fs.ErrExist))
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if above := path.Dir(path.Clean(name)); above != "." && above != "/" && above != name {
		if err := c.MkdirAll(ctx, above, perm); err != nil {
			return err
		}
	}
	err = c.Mkdir(ctx, name, perm)
	if errors.Is(err, fs.ErrExist) {
		// Another program may have created the directory meanwhile.
		if fi, e := c.Stat(ctx, name); e == nil && fi.IsDir() {
			return nil
		}
	}
	return err
}

// Rename renames a file or a directory, and replaces an existing file, as rename(2) does. A
// server without OpenSSH's posix-rename may refuse to replace a file: the error is then
// fs.ErrExist.
func (c *Client) Rename(ctx context.Context, from, to string) error {
	if c.server.Ext.Has(wire.ExtPosixRename) {
		return c.two(ctx, "rename", from, to, mux.Call{Take: mux.TakeOK}, wire.AppendPosixRename)
	}
	return c.Move(ctx, from, to)
}

// Move renames a file or a directory. If the new name is in use, the error is fs.ErrExist.
func (c *Client) Move(ctx context.Context, from, to string) error {
	return taken(ctx, c, c.two(ctx, "rename", from, to, mux.Call{Take: mux.TakeOK}, wire.AppendRename), to)
}

// Link gives a file a second name (hardlink@openssh.com). The error is errors.ErrUnsupported if
// the server does not offer that.
func (c *Client) Link(ctx context.Context, from, to string) error {
	if !c.server.Ext.Has(wire.ExtHardlink) {
		return linkError("link", from, to, errors.ErrUnsupported)
	}
	return taken(ctx, c, c.two(ctx, "link", from, to, mux.Call{Take: mux.TakeOK}, wire.AppendHardlink), to)
}

// Symlink creates a symbolic link with the given target, which is not changed.
func (c *Client) Symlink(ctx context.Context, target, name string) error {
	build := wire.AppendSymlink
	if c.server.Draft {
		build = func(b []byte, id uint32, target, name string) []byte { return wire.AppendSymlink(b, id, name, target) }
	}
	return taken(ctx, c, c.two(ctx, "symlink", target, name, mux.Call{Take: mux.TakeOK}, build), name)
}

// Readlink returns the target of a symbolic link. If the name is not a symbolic link, the error is
// fs.ErrInvalid.
func (c *Client) Readlink(ctx context.Context, name string) (string, error) {
	var target string
	err := c.one(ctx, "readlink", name, mux.Call{Take: mux.TakeName(&target), Again: true}, wire.AppendReadlink)
	if isFailure(err) {
		if fi, e := c.Lstat(ctx, name); e == nil && fi.Mode().Type() != fs.ModeSymlink {
			return "", pathError("readlink", name, fmt.Errorf("%w: not a symbolic link", fs.ErrInvalid))
		}
	}
	return target, err
}

// RealPath returns the absolute form of a name. The result contains no symbolic links if the server
// resolves them.
func (c *Client) RealPath(ctx context.Context, name string) (string, error) {
	var real string
	err := c.one(ctx, "realpath", name, mux.Call{Take: mux.TakeName(&real), Again: true}, wire.AppendRealpath)
	return real, err
}

// SetAttr sets the attributes in a. If follow is set, it follows a symbolic link. Otherwise it
// changes the link itself (lsetstat@openssh.com); the error is errors.ErrUnsupported if the server
// does not offer that. Setting only one of the two owners, or of the two times, costs an extra
// request for the other. Times have a resolution of seconds.
func (c *Client) SetAttr(ctx context.Context, name string, a store.Attr, follow bool) error {
	err := c.setAttr(ctx, name, a, follow)
	if err != nil && !errors.As(err, new(*fs.PathError)) {
		return pathError("setattr", name, err)
	}
	return err
}

func (c *Client) setAttr(ctx context.Context, name string, a store.Attr, follow bool) error {
	send, stat := wire.AppendSetstat, c.Stat
	if a.Size != nil && (*a.Size < 0 || *a.Size > wire.MaxFile) {
		return fs.ErrInvalid
	}
	if !follow {
		if a.Size != nil || a.Mode != nil || !c.server.Ext.Has(wire.ExtLsetstat) {
			return errors.ErrUnsupported
		}
		send, stat = wire.AppendLsetstat, c.Lstat
	}
	var now fs.FileInfo
	if storewire.NeedsCurrent(a) {
		var err error
		if now, err = stat(ctx, name); err != nil {
			return err
		}
	}
	changes := storewire.ChangesOf(a, now)
	if changes.Flags == 0 {
		return nil
	}
	return c.one(ctx, "setattr", name, mux.Call{Take: mux.TakeOK, Again: true}, func(b []byte, id uint32, name string) []byte {
		return send(b, id, name, changes)
	})
}

// Chmod sets the mode of a file: its permissions, and the setuid, setgid and sticky bits.
// [Client.SetAttr] sets owner, times and size too.
func (c *Client) Chmod(ctx context.Context, name string, mode fs.FileMode) error {
	return c.SetAttr(ctx, name, store.Attr{Mode: &mode}, true)
}
