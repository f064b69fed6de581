package sftpclient

import (
	"context"
	"errors"
	"fmt"

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
