package sftpclient

import (
	"cmp"
	"context"
	"errors"
	"io"

	"github.com/haul-project/haul/sftp/internal/mux"
	"github.com/haul-project/haul/sftp/internal/wire"
)

// maxUnconfirmed is the largest size in bytes of an upload whose data is held until Commit. For
// larger uploads, saving a round trip makes no difference.
const maxUnconfirmed = 128 << 10

// fillBehind reads `size` bytes of r, to be written at off. They are sent together with the
// requests that close the file, or earlier if another call needs them on the server. If the client
// has no memory for them, fillBehind does nothing and returns false.
func (f *File) fillBehind(r io.ReaderAt, off, size int64) (n int64, ok bool, err error) {
	if f.c.config.NoWriteBehind {
		return 0, false, nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := cmp.Or(f.mayWrite("write", off, int(size)), f.broken); err != nil {
		return 0, true, err
	}
	f.dropAhead()
	n, ok, err = f.behind.Hold(io.NewSectionReader(r, off, size), off, size)
	f.wrote = f.wrote || ok
	return n, ok, f.behindError(err)
}

// closeBehind sets attributes and closes the file without waiting first for the answers to earlier
// writes. Then it waits for all answers. It returns false if it cannot do this: the file is open in
// several sessions, or its session was lost, or writing has failed. The caller then has to wait for
// the written data.
func (f *File) closeBehind(ctx context.Context, a wire.Attrs) (sent bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	closing := f.behind.SendClosing(ctx, a)
	if closing == nil {
		return false, nil
	}
	err = cmp.Or(f.awaitBehind(ctx), closing.Await(ctx))
	return !errors.Is(err, mux.ErrSessionLost), err
}
