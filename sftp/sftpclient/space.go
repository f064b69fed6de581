package sftpclient

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"sync/atomic"
	"time"

	"github.com/haul-project/haul/sftp/internal/mux"
	"github.com/haul-project/haul/sftp/internal/storewire"
	"github.com/haul-project/haul/sftp/internal/wire"
	"github.com/haul-project/haul/store"
)

// fullTime is the time limit for asking the server whether its disk is full.
const fullTime = 5 * time.Second

// fullFor is how long the disk counts as full after the server has reported that it is full. When
// many uploads fail at once, removing the first ones frees space, but the others also failed
// because the disk was full.
const fullFor = 5 * time.Second

// A disk finds out how much room the server's disk has.
type disk struct {
	c    *Client
	full atomic.Int64 // time at which the disk was last found full, in nanoseconds since 1970; 0 if it never was
}

// explain adds to an error from writing or creating a file that the server's disk is full, if it is
// full and the server gave no reason. It asks the server even if the context has ended.
func (d *disk) explain(ctx context.Context, name string, err error) error {
	refused, ok := errors.AsType[*StatusError](err)
	if !ok || refused.Code != uint32(wire.Failure) || refused.kind != nil ||
		errors.Is(err, store.ErrNoSpace) || !d.isFull(ctx, path.Dir(name)) {
		return err
	}
	switch e := err.(type) {
	case *TransferError:
		full := *e
		full.Err = storewire.FullError{Refusal: e.Err}
		return &full
	case *fs.PathError:
		return pathError(e.Op, e.Path, storewire.FullError{Refusal: e.Err})
	}
	return storewire.FullError{Refusal: err}
}

// isFull reports whether the file system of a directory has no room for another WRITE or another
// file. It returns false if the server cannot say.
func (d *disk) isFull(ctx context.Context, dir string) bool {
	if time.Since(time.Unix(0, d.full.Load())) < fullFor {
		return true
	}
	if !d.c.server.Ext.Has(wire.ExtStatVFS) {
		return false
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fullTime)
	defer cancel()
	s, err := d.c.Space(ctx, dir)
	full := err == nil && s.Total > 0 && (s.Available < int64(d.c.server.WriteChunk) || s.Files > 0 && s.AvailableFiles == 0)
	if full {
		d.full.Store(time.Now().UnixNano())
	}
	return full
}

// Space describes the free space on the file system of a name (statvfs@openssh.com).
func (c *Client) Space(ctx context.Context, name string) (store.Space, error) {
	var v wire.StatVFS
	if !c.server.Ext.Has(wire.ExtStatVFS) {
		return store.Space{}, pathError("space", name, errors.ErrUnsupported)
	}
	if err := c.one(ctx, "space", name, mux.Call{Take: mux.TakeStatVFS(&v), Again: true}, wire.AppendStatVFS); err != nil {
		return store.Space{}, err
	}
	return storewire.SpaceOf(v), nil
}

// askRoom asks the server whether a directory has room for `size` bytes. The returned function
// waits for the answer, and returns an error if there is no room. It must not refuse an upload that
// might succeed, so it counts the room reserved for the administrator as free, and ignores a file
// system of size 0.
func (d *disk) askRoom(ctx context.Context, dir string, size int64) (await func() error) {
	if size < askSpace || !d.c.server.Ext.Has(wire.ExtStatVFS) {
		return func() error { return nil }
	}
	var v wire.StatVFS
	k := &mux.Call{Take: mux.TakeStatVFS(&v), Again: true, Build: pathCall(wire.AppendStatVFS, dir)}
	d.c.mux.Start(k)
	return func() error {
		err := d.c.mux.Await(ctx, k)
		if s := storewire.SpaceOf(v); err == nil && s.Total > 0 && s.Free < size {
			return storewire.RoomError{Free: s.Free, Size: size}
		}
		return nil
	}
}

// askSpace is the smallest size in bytes for which askRoom asks the server.
const askSpace = 64 << 20
