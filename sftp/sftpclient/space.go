package sftpclient

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"time"

	"github.com/haul-project/haul/sftp/internal/mux"
	"github.com/haul-project/haul/sftp/internal/storewire"
	"github.com/haul-project/haul/sftp/internal/wire"
	"github.com/haul-project/haul/store"
)

// fullTime is how long the question may take whether the server's disk is full.
const fullTime = 5 * time.Second

// fullFor is how long the answer holds that the server's disk is full. When many files
// fail at once, those that were removed first leave room, which is not why the others
// failed.
const fullFor = 5 * time.Second

// explain adds to the error of writing a file, or of making one, that the disk is
// full, if the server refused without a reason and its disk is. To find out it
// asks the server, even if the context has ended.
func (c *Client) explain(ctx context.Context, name string, err error) error {
	refused, ok := errors.AsType[*StatusError](err)
	if !ok || refused.Code != uint32(wire.Failure) || refused.kind != nil ||
		errors.Is(err, store.ErrNoSpace) || !c.isFull(ctx, path.Dir(name)) {
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

// isFull reports whether there is no room for another request of data, or for
// another file, in a directory of the server, if the server can say so.
func (c *Client) isFull(ctx context.Context, dir string) bool {
	if time.Since(time.Unix(0, c.full.Load())) < fullFor {
		return true
	}
	if !c.server.Ext.Has(wire.ExtStatVFS) {
		return false
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fullTime)
	defer cancel()
	s, err := c.Space(ctx, dir)
	full := err == nil && s.Total > 0 && (s.Available < int64(c.server.WriteChunk) || s.Files > 0 && s.AvailableFiles == 0)
	if full {
		c.full.Store(time.Now().UnixNano())
	}
	return full
}

// Space returns how much room there is where a name is (statvfs@openssh.com).
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

// askRoom asks whether a directory has room for so many bytes. The function returned waits
// for the answer, and returns an error if there is none. It refuses nothing that might
// succeed: what is kept for the administrator counts, as the user may be that, and a file
// system that claims to have no size at all is not believed.
func (c *Client) askRoom(ctx context.Context, dir string, size int64) (await func() error) {
	if size < askSpace || !c.server.Ext.Has(wire.ExtStatVFS) {
		return func() error { return nil }
	}
	var v wire.StatVFS
	k := &mux.Call{Take: mux.TakeStatVFS(&v), Again: true, Build: pathCall(wire.AppendStatVFS, dir)}
	c.mux.Start(k)
	return func() error {
		err := c.mux.Await(ctx, k)
		if s := storewire.SpaceOf(v); err == nil && s.Total > 0 && s.Free < size {
			return storewire.RoomError{Free: s.Free, Size: size}
		}
		return nil
	}
}

// askSpace is from how many bytes on it is asked whether they have room.
const askSpace = 64 << 20
