package sftpclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/haul-project/haul/sftp/internal/mux"
	"github.com/haul-project/haul/sftp/internal/wire"
	"github.com/haul-project/haul/store"
)

// maxCopyData is how many bytes the server is asked to copy at once, so that
// a caller who waits sees now and then that it proceeds.
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
	u, err := c.create(ctx, to, store.Create{Size: fi.Size(), Perm: fi.Mode().Perm()}, nil)
	if err != nil {
		return 0, err
	}
	defer u.Close()
	if n, err = u.CloneFrom(ctx, src, func(int64) {}); err != nil {
		return n, err
	}
	return n, u.Commit()
}

// CloneFrom has the server copy all of a file that this client has open (copy-data). copied
// is called with how many bytes came to be there, now and then. It returns how many there are.
func (u *upload) CloneFrom(ctx context.Context, from store.File, copied func(n int64)) (n int64, err error) {
	src, ok := from.(*File)
	if !ok || src.c != u.c || !u.c.server.Ext.Has(wire.ExtCopyData) {
		return 0, errors.ErrUnsupported
	}
	fi, err := src.Stat()
	if err != nil {
		return 0, err
	}
	// A handle is good on its lane only, and this takes two.
	to, err := u.f.remote.Handle(ctx)
	if err != nil {
		return 0, err
	}
	a, ok := src.remote.OnLane(to.Lane)
	if !ok {
		again, err := u.c.openFile(ctx, src.remote.Path, os.O_RDONLY, 0, mux.OpenOptions{On: to.Lane})
		if err != nil {
			return 0, err
		}
		defer again.Close()
		now, err := again.Stat()
		if err != nil {
			return 0, err
		}
		if now.Size() != fi.Size() || !now.ModTime().Equal(fi.ModTime()) {
			return 0, fmt.Errorf("%s: %w", src.name, store.ErrChanged)
		}
		if a, ok = again.remote.OnLane(to.Lane); !ok {
			return 0, fmt.Errorf("%w: no session has both files open", ErrConnectionLost)
		}
	}
	u.f.wrote()
	for n < fi.Size() {
		some := min(fi.Size()-n, maxCopyData)
		err := u.c.mux.Do(ctx, &mux.Call{Lane: a.Lane, Take: mux.TakeOK, Slow: true, Build: func(p []byte, id uint32) []byte {
			return wire.AppendCopyData(p, id, a.Handle, n, some, to.Handle, n)
		}})
		if errors.Is(err, io.EOF) {
			break // it has become shorter
		}
		if err != nil {
			return n, u.c.explain(ctx, u.temp, err)
		}
		n += some
		copied(some)
	}
	if fi, err = u.f.Stat(); err != nil {
		return n, err
	}
	return fi.Size(), nil
}
