package sftp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/haul-project/haul/sftp/internal/wire"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/users"
)

// These errors answer a request with an unknown handle. They follow OpenSSH, which answers CLOSE
// with NO_SUCH_FILE, and most other requests with FAILURE.
var (
	errNoHandle = errors.New("no such handle")
	errNotOpen  = fmt.Errorf("%w: %w", fs.ErrNotExist, errNoHandle)
)

// usualPerm holds the permission bits of a new file for which the client sends none.
const usualPerm = 0o666

// open answers OPEN, which opens or creates a file.
func (s *session) open(q *wire.Request) error {
	name, err := s.conn.paths.resolve(q.Path)
	if err != nil {
		return err
	}
	if q.Flags.Check() != nil {
		return fs.ErrInvalid
	}
	if err := s.conn.reserve(); err != nil {
		return err
	}
	h := &sessionHandle{conn: s.conn, name: name}
	if err := s.conn.openHandle(s.ctx, h, q); err != nil {
		s.conn.unreserve()
		return s.conn.audit("open", name, "", err)
	}
	s.enter(h, q.Flags)
	return errAnswered
}

// flagsKnown holds the flags of OPEN that the server knows. flagsAnew holds the flags with which a
// file begins empty. Only an OPEN with one of these can begin a hidden upload, and only an OPEN
// with none of them can join an upload that has begun.
const (
	flagsKnown = wire.OpenRead | wire.OpenWrite | wire.OpenAppend | wire.OpenCreate | wire.OpenTruncate | wire.OpenExclusive
	flagsAnew  = wire.OpenTruncate | wire.OpenExclusive
)

func (c *userConn) openHandle(ctx context.Context, h *sessionHandle, q *wire.Request) (err error) {
	flags := q.Flags & flagsKnown
	if c.account.Access == users.UploadOnly && flags&wire.OpenWrite != 0 && flags&wire.OpenCreate != 0 {
		// Many clients that only write also ask to read, such as pkg/sftp's Create. An upload-only
		// account may open the file all the same; only a READ is refused.
		flags &^= wire.OpenRead
	}
	perm := c.perm(q.Attrs, usualPerm)
	writesOnly := flags&(wire.OpenRead|wire.OpenWrite|wire.OpenAppend) == wire.OpenWrite
	switch {
	case c.account.Hidden && c.account.Access != users.ReadOnly && writesOnly &&
		flags&wire.OpenCreate != 0 && flags&flagsAnew != 0:
		if err := c.createHidden(ctx, h, perm, flags&wire.OpenExclusive != 0); !errors.Is(err, store.ErrInPlace) {
			return err
		}
	case writesOnly && flags&flagsAnew == 0:
		if u := c.pending(h.name); u != nil && u.enter(h) {
			return nil
		}
	}
	if err := c.publishPending(h.name); err != nil {
		return err
	}
	a := store.Access{
		Read:      flags&wire.OpenRead != 0,
		Write:     flags&wire.OpenWrite != 0,
		Append:    flags&wire.OpenAppend != 0,
		Create:    flags&wire.OpenCreate != 0,
		Exclusive: flags&wire.OpenExclusive != 0,
		Truncate:  flags&wire.OpenTruncate != 0,
		Perm:      perm,
	}
	h.file, err = c.tree.OpenFile(ctx, h.name, a)
	if err == nil && a.Exclusive && perm == 0 {
		if err = h.file.SetAttr(store.Attr{Mode: new(perm)}); err != nil {
			_ = h.file.Close()
		}
	}
	return err
}

// close answers CLOSE. The handle is invalid afterwards even if closing fails.
func (s *session) close(q *wire.Request) error {
	h := s.handles.get(q.Handle)
	if h == nil {
		return errNotOpen
	}
	return s.release(h, nil)
}

// read answers READ. It reads the data directly into the reply, after the space for the header, so
// that the data is never copied.
func (s *session) read(q *wire.Request) error {
	n, err := s.appendData(q)
	if err != nil {
		s.status(err)
		return nil
	}
	return s.wait(s.conn.throttles.sent(n))
}

// firstFlight is how many bytes TCP sends before it needs an acknowledgement: ten segments (RFC
// 6928). Before a READ for more than that, the first replies are sent in a packet of their own. A
// client may ask for the attributes and data of a file together with INIT. If the first replies
// shared an SSH packet of up to 32 KiB with the data, the client would receive them a round trip
// later, because it can decrypt a packet only when all of it has arrived.
const firstFlight = 10 * 1460

// awayPause is how long all reads of a handle fail at once after one read has failed because the
// files were unavailable. Clients have many reads under way, and without the pause each read would
// wait for as long as the first one did.
const awayPause = time.Second

// appendData appends the DATA reply to a READ, and returns the number of its data bytes.
func (s *session) appendData(q *wire.Request) (int, error) {
	h := s.handles.file(q.Handle)
	switch {
	case h == nil:
		return 0, errNoHandle
	case h.file == nil:
		return 0, fs.ErrPermission
	}
	if h.away != nil && time.Since(h.awayAt) < awayPause {
		h.transfer.fail(h.away)
		return 0, h.away
	}
	want := int(min(q.Length, s.conn.throttles.maxRead()))
	if s.flushes == 0 && want > firstFlight {
		s.flush()
	}
	s.room(wire.DataHeaderSize + want)
	at := len(s.out.b) + wire.DataHeaderSize
	n, err := h.file.ReadAt(s.out.b[at:at+want], q.Offset)
	if errors.Is(err, store.ErrUnavailable) {
		h.away, h.awayAt = err, time.Now()
	}
	if n == 0 && (err != nil || want > 0) {
		if err == nil {
			err = io.ErrNoProgress
		}
		h.readAt = s.flushes
		if h.ended = err == io.EOF; !h.ended {
			h.transfer.fail(err)
		}
		return 0, err
	}
	s.out.b = wire.AppendDataHeader(s.out.b, q.ID, n)[:at+n]
	h.readAt = s.flushes
	h.transfer.sent.Add(int64(n))
	s.conn.info.sent.Add(int64(n))
	s.conn.server.shared.counts.sent.Add(int64(n))
	return n, nil
}

// write answers WRITE. It writes the data directly from the buffer in which it was received.
func (s *session) write(q *wire.Request) error {
	h := s.handles.file(q.Handle)
	if h == nil {
		s.status(errNoHandle)
		return nil
	}
	n, err := h.writeAt(q.Data, q.Offset)
	h.transfer.received.Add(int64(n))
	s.conn.info.received.Add(int64(n))
	s.conn.server.shared.counts.received.Add(int64(n))
	h.transfer.fail(err)
	s.status(err)
	return s.wait(s.conn.throttles.received(len(q.Data)))
}

// fsync answers fsync@openssh.com: it makes the data that was written so far durable.
func (s *session) fsync(q *wire.Request) error {
	h := s.handles.file(q.Handle)
	switch {
	case h == nil:
		return errNotOpen
	case h.upload != nil:
		return h.upload.sync()
	}
	return h.file.Sync()
}
