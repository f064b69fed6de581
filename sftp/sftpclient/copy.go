package sftpclient

import (
	"context"
	"errors"

	"github.com/haul-project/haul/sftp/internal/wire"
	"github.com/haul-project/haul/store"
)

// CopyFile has the server copy a file, and returns its size in bytes (copy-data). The data never
// leaves the server. The copy appears under its name when it is complete, with the permissions of
// the original, and replaces an existing file.
func (c *Client) CopyFile(ctx context.Context, from, to string) (n int64, err error) {
	if !c.server.Ext.Has(wire.ExtCopyData) {
		return 0, linkError("copy", from, to, errors.ErrUnsupported)
	}
	src, err := c.Open(ctx, from)
	if err == nil {
		n, err = c.copyFile(ctx, src, to)
		_ = src.Close()
	}
	if err != nil {
		return n, linkError("copy", from, to, err)
	}
	return n, nil
}

func (c *Client) copyFile(ctx context.Context, src *File, to string) (int64, error) {
	fi, err := src.Stat()
	if err != nil {
		return 0, err
	}
	u, err := createUpload(ctx, c, to, store.Create{Size: fi.Size(), Perm: fi.Mode().Perm()})
	if err != nil {
		return 0, err
	}
	defer u.Close()
	n, err := clone(ctx, u, src, func(int64) {})
	if err == nil {
		err = u.Commit()
	}
	return n, err
}

// clone has the server copy a whole file to an upload of the same client (copy-data): see
// [store.Capabilities].
func clone(ctx context.Context, to store.Upload, from store.File, copied func(n int64)) (int64, error) {
	u, isUpload := store.As[*upload](to)
	src, isFile := store.As[*File](from)
	if !isUpload || !isFile || src.c != u.c || !u.c.server.Ext.Has(wire.ExtCopyData) {
		return 0, errors.ErrUnsupported
	}
	fi, err := src.Stat()
	if err != nil {
		return 0, err
	}
	u.f.noteWrite()
	if err := src.remote.Clone(ctx, u.f.remote, fi.Size(), copied); err != nil {
		return 0, u.c.disk.explain(ctx, u.temp, err)
	}
	if fi, err = u.f.Stat(); err != nil { // the original may have become shorter
		return 0, err
	}
	return fi.Size(), nil
}
