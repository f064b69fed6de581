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
	if f.c.config.NoWriteBehind || !f.c.takeMemory(size) {
		return 0, false, nil
	}
	defer f.c.takeMemory(-size) // the segments count themselves
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := cmp.Or(f.forWriting("write", off, int(size)), f.behind.err); err != nil {
		return 0, true, err
	}
	f.dropAhead()
	f.behind.wrote = true
	w, err := f.behind.runAt(off, size)
	if err != nil {
		return 0, true, err
	}
	f.c.mux.Lock()
	w.whole = true
	w.t.Plan.EndAt(off + size)
	f.c.mux.Unlock()
	src := io.NewSectionReader(r, off, size)
	for n < size {
		some, err := w.readFrom(src, off+n, int(size-n))
		n += int64(some)
		switch {
		case f.behind.err != nil:
			return n, true, f.behind.explained(err)
		case err == io.EOF && n < size:
			return n, true, &TransferError{Op: "write", Name: f.name, Offset: off + n, Local: true, Err: io.ErrUnexpectedEOF}
		case err != nil && err != io.EOF:
			return n, true, err
		}
	}
	return n, true, nil
}

// takeMemory takes so many bytes of what the buffers of all files may hold, if there
// are so many.
func (c *Client) takeMemory(bytes int64) bool {
	c.mux.Lock()
	defer c.mux.Unlock()
	if bytes > 0 && c.memory.held+bytes > int64(c.config.Memory) {
		return false
	}
	c.memory.held += bytes
	return true
}

// closeBehind gives the file attributes and has the server close it, without waiting for
// the answers to what was written before. All are awaited together. It reports false if it
// cannot: the file is open in several sessions, or the one was lost, or writing has failed.
// Then what was written is to be awaited first.
func (f *File) closeBehind(ctx context.Context, a wire.Attrs) (sent bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	closing := f.sendClosing(ctx, a)
	if closing == nil {
		return false, nil
	}
	err = cmp.Or(f.behind.await(ctx), closing.Await(ctx))
	return !errors.Is(err, mux.ErrLaneLost), err
}

// sendClosing sends it. The caller holds mu.
func (f *File) sendClosing(ctx context.Context, a wire.Attrs) *mux.Closing {
	if f.behind.err != nil {
		return nil
	}
	m := f.c.mux
	m.Lock()
	defer m.Unlock()
	if !f.behind.sendRuns(ctx) {
		return nil
	}
	return f.remote.CloseBehind(a)
}
