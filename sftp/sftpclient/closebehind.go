package sftpclient

import (
	"cmp"
	"context"
	"errors"
	"io"

	"github.com/haul-project/haul/sftp/internal/mux"
	"github.com/haul-project/haul/sftp/internal/wire"
)

// maxUnconfirmed is how many bytes an upload keeps at most until it is committed. Of
// more, the round trip saved is no matter.
const maxUnconfirmed = 128 << 10

// fillBehind reads size bytes of r. They are sent when the file is closed, with the
// requests for that, or as soon as something else needs them on the server. It reports
// false, and does nothing, if the memory of the client has no room for them.
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

// closeBehind gives the file attributes and has the server close it, without waiting for
// the answers to what was written before. All are awaited together. It reports false if it
// cannot: the file is open in several sessions, or the one was lost, or writing has failed.
// Then what was written is to be awaited first.
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
