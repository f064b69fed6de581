package sftpclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"sync"

	"github.com/haul-project/haul/internal/tempname"
	"github.com/haul-project/haul/sftp/internal/mux"
	"github.com/haul-project/haul/sftp/internal/storewire"
	"github.com/haul-project/haul/sftp/internal/wire"
	"github.com/haul-project/haul/store"
)

// firstPerm is the mode of a temporary file: only the user may access it.
const firstPerm = 0o600

// An upload writes a temporary file beside its target, which Commit renames to the target's name.
type upload struct {
	c      *Client
	ctx    context.Context
	target string      // path under which Commit publishes the file
	temp   string      // path of the temporary file
	perm   fs.FileMode // the final permissions
	only   bool        // the target must not exist
	noSync bool
	f      *File

	// vanished is called if the temporary file does not exist any more. It returns nil if this
	// upload has renamed the file. The field is nil if no other upload can take the file over.
	vanished func() error

	mu   sync.Mutex
	done bool       // the upload was committed or closed; guarded by mu
	attr store.Attr // the final mode and times; guarded by mu
}

var _ store.AttrUpload = (*upload)(nil)

// createUpload begins an upload that cannot be resumed. It fails if the server's disk has no room for
// o.Size bytes.
func createUpload(ctx context.Context, c *Client, name string, o store.Create) (*upload, error) {
	if err := checkPath(name); err != nil {
		return nil, err
	}
	// The server answers this request while the file is created.
	room := c.disk.askRoom(ctx, path.Dir(name), o.Size)
	u := newUpload(ctx, c, name, o)
	err := u.begin(true)
	if full := room(); full != nil {
		if err == nil {
			_ = u.discard()
		}
		return nil, full
	}
	if err != nil {
		return nil, err
	}
	return u, nil
}

func newUpload(ctx context.Context, c *Client, name string, o store.Create) *upload {
	u := &upload{c: c, ctx: ctx, target: name, perm: o.Perm.Perm(), only: o.Exclusive, noSync: o.NoSync}
	if u.perm == 0 {
		u.perm = 0o644
	}
	return u
}

// begin creates the temporary file, and requests the attributes of the target at the same time. If
// the target is a symbolic link, the upload writes to the link's target.
func (u *upload) begin(follow bool) error {
	dir, _ := path.Split(u.target)
	u.temp = dir + tempname.New(u.c.run.newKey(), tempname.Upload)
	var old wire.Attrs
	missing := error(nil)
	look := &mux.Call{Build: pathCall(wire.AppendLstat, u.target)}
	look.Take = func(p *wire.Reply) error {
		missing = refused(mux.TakeAttrs(&old)(p))
		return missing
	}
	f, err := u.c.openFile(u.ctx, u.temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, firstPerm, mux.OpenOptions{Also: look, Patient: true})
	if err != nil {
		if !isStatus(err) { // the server may have created the file
			u.c.run.noteLeftover()
		}
		return err
	}
	u.f, f.remote.Own = f, true
	f.name = u.target // for messages: users do not know the temporary name
	link, err := u.replaces(storewire.InfoOf("", old), missing)
	switch {
	case u.ctx.Err() != nil:
		err = context.Cause(u.ctx)
	case link && !follow:
		err = store.ErrNotRegular
	}
	if err == nil && !link {
		return nil
	}
	_ = u.discard()
	if err != nil {
		return err
	}
	if u.target, err = linkTarget(u.ctx, u.c, u.target); err != nil {
		return err
	}
	return u.begin(false)
}

// replaces adopts the permissions of the file that the upload replaces. It returns an error if the
// upload may not replace that file. The argument missing is the error of the request for fi, or
// nil. The result link is true if the file is a symbolic link; the caller then tries the link's
// target.
func (u *upload) replaces(fi fs.FileInfo, missing error) (link bool, err error) {
	switch {
	case errors.Is(missing, fs.ErrNotExist):
	case missing != nil:
		return false, missing
	case u.only:
		return false, fs.ErrExist
	case fi.Mode().Type() == fs.ModeSymlink:
		return true, nil
	case fi.Mode().IsRegular():
		u.perm = fi.Mode().Perm()
	default:
		return false, store.ErrNotRegular
	}
	return false, nil
}

// SetAttr sets the mode and the times that Commit gives the file.
func (u *upload) SetAttr(a store.Attr) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case u.done:
		return u.fail("setattr", fs.ErrClosed)
	case a.Size != nil || a.UID != nil || a.GID != nil:
		return u.fail("setattr", errors.ErrUnsupported)
	case a.Mode != nil:
		mode := a.Mode.Perm()
		u.attr.Mode = &mode
	}
	if !a.AccessTime.IsZero() {
		u.attr.AccessTime = a.AccessTime
	}
	if !a.ModTime.IsZero() {
		u.attr.ModTime = a.ModTime
	}
	return nil
}

// Perm returns false, because the server decides, for example with its umask, which permission bits
// the file gets.
func (u *upload) Perm() (fs.FileMode, bool) { return 0, false }

// openUpload opens the data written to an upload so far, once the server has confirmed it.
func (s *remoteTree) openUpload(ctx context.Context, to store.Upload) (store.File, error) {
	u, ok := store.As[*upload](to)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	if err := u.f.awaitWrites(ctx); err != nil {
		return nil, err
	}
	f, err := u.c.openFile(ctx, u.temp, os.O_RDONLY, 0, mux.OpenOptions{})
	if err != nil {
		return nil, u.fail("open", err)
	}
	f.name = u.target
	return f, nil
}

func (u *upload) WriteAt(p []byte, off int64) (int, error) { return u.f.WriteAt(p, off) }

func (u *upload) Truncate(size int64) error { return u.f.Truncate(size) }

// FillFrom is like [File.FillFrom]. If size is small it only reads r, and Commit sends the bytes
// together with its own requests.
func (u *upload) FillFrom(ctx context.Context, r io.ReaderAt, off, size int64) (int64, error) {
	if size >= 0 && size <= maxUnconfirmed {
		if n, ok, err := u.f.fillBehind(r, off, size); ok {
			return n, err
		}
	}
	return u.f.FillFrom(ctx, r, off, size)
}

// end marks the upload as done. It returns false if the upload was done already.
func (u *upload) end() (first bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	first = !u.done
	u.done = true
	return first
}

// Commit waits until all data is written, has the server write it to its disk if it can, and gives
// the file its name.
func (u *upload) Commit() error {
	if !u.end() {
		return u.fail("commit", fs.ErrClosed)
	}
	if err := u.publish(); err != nil {
		err = u.c.disk.explain(u.ctx, u.temp, err) // before the removal frees space
		_ = u.discard()
		return u.fail("commit", err)
	}
	return nil
}

func (u *upload) fail(op string, err error) error { return fail(op, u.target, err) }

func (u *upload) publish() error {
	f := u.f
	if u.noSync {
		if err := u.closeWith(u.attrs()); err != nil {
			return err
		}
		return u.rename(nil)
	}
	if err := f.awaitWrites(u.ctx); err != nil {
		return err
	}
	h, err := u.secure()
	if err != nil {
		return err
	}
	if u.c.server.Ext.Has(wire.ExtFsync) {
		// All data is on the disk, so CLOSE cannot report another error. In the same session it is
		// processed before the rename.
		f.remote.End()
		_ = f.remote.Close(u.ctx, false)
		return u.rename(h.Session)
	}
	if err := f.Close(); err != nil {
		return err
	}
	return u.rename(nil)
}

// attrs returns the final attributes of the file.
func (u *upload) attrs() wire.Attrs {
	u.mu.Lock()
	defer u.mu.Unlock()
	a := u.attr
	if a.Mode == nil {
		a.Mode = &u.perm
	}
	return storewire.ChangesOf(a, nil)
}

// closeWith waits until all data is written, sets the file's attributes and closes it: in one round
// trip if the server allows that, or in two.
func (u *upload) closeWith(a wire.Attrs) error {
	if u.c.server.InOrder {
		sent, err := u.f.closeBehind(u.ctx, a)
		switch {
		case sent && err == nil:
			return u.f.close(false) // the server has closed all handles
		case sent:
			return err
		}
	}
	if err := u.f.awaitWrites(u.ctx); err != nil {
		return err
	}
	if _, err := u.f.remote.Handle(u.ctx); err != nil {
		return err
	}
	// Set the attributes in the session of the handle that created the file, before that handle is
	// closed. A server that hides uploads, such as haul, publishes the file when that handle is
	// closed, whatever other handles are open.
	h, ok := u.f.remote.First()
	if !ok {
		return fmt.Errorf("%w: %w", ErrConnectionLost, mux.ErrSessionLost)
	}
	set := &mux.Call{Session: h.Session, Take: mux.TakeOK, Build: func(b []byte, id uint32) []byte {
		return wire.AppendFsetstat(b, id, h.Handle, a)
	}}
	u.c.mux.Start(set)
	u.f.noteWrite() // so that Close waits for the server's answers
	err := u.f.Close()
	if e := u.c.mux.Await(u.ctx, set); err == nil {
		err = e
	}
	return err
}

// secure sets the file's attributes and has the server write it to its disk. It returns the handle
// that it used.
func (u *upload) secure() (mux.Handle, error) {
	m := u.c.mux
	a := u.attrs()
	for tries := 1; ; tries++ {
		h, err := u.f.remote.Handle(u.ctx)
		if err != nil {
			return h, err
		}
		calls := []*mux.Call{{Session: h.Session, Take: mux.TakeOK, Build: func(b []byte, id uint32) []byte {
			return wire.AppendFsetstat(b, id, h.Handle, a)
		}}}
		if m.Server.Ext.Has(wire.ExtFsync) {
			calls = append(calls, &mux.Call{Session: h.Session, Slow: true, Take: mux.TakeOK, Build: func(b []byte, id uint32) []byte {
				return wire.AppendFsync(b, id, h.Handle)
			}})
		}
		m.Start(calls...)
		for _, k := range calls {
			if e := m.Await(u.ctx, k); err == nil {
				err = e
			}
		}
		if !errors.Is(err, mux.ErrSessionLost) || tries == mux.MaxTries {
			return h, err
		}
	}
}

// rename gives the file its name, in the session `on`, or in any session if `on` is nil. If that
// session is lost and the temporary name does not exist any more, this upload has renamed the file.
func (u *upload) rename(on *mux.Session) error {
	for tries := 1; ; tries++ {
		err := u.tryRename(on)
		on = nil
		if err == nil || !errors.Is(err, mux.ErrSessionLost) && tries == 1 {
			return err
		}
		if _, e := u.c.Lstat(u.ctx, u.temp); errors.Is(e, fs.ErrNotExist) {
			if u.vanished != nil {
				return u.vanished()
			}
			return nil
		}
		if !errors.Is(err, mux.ErrSessionLost) || tries == mux.MaxTries {
			return err
		}
	}
}

func (u *upload) tryRename(on *mux.Session) error {
	c := u.c
	rename := func(append func([]byte, uint32, string, string) []byte) error {
		return c.mux.Do(u.ctx, &mux.Call{Session: on, Take: mux.TakeOK, Build: func(b []byte, id uint32) []byte {
			return append(b, id, u.temp, u.target)
		}})
	}
	if !u.only && c.server.Ext.Has(wire.ExtPosixRename) {
		return rename(wire.AppendPosixRename)
	}
	err := rename(wire.AppendRename)
	if !isStatus(err) || errors.Is(err, fs.ErrNotExist) {
		return err
	}
	fi, e := c.Lstat(u.ctx, u.target)
	switch {
	case e != nil:
		return err
	case u.only:
		return exists(err)
	case !fi.Mode().IsRegular() && fi.Mode().Type() != fs.ModeSymlink:
		return fmt.Errorf("%w: %w", store.ErrNotRegular, err)
	}
	// The server cannot replace a file in one step. For a moment the target does not exist.
	if err := c.RemoveFile(u.ctx, u.target); err != nil {
		return err
	}
	return rename(wire.AppendRename)
}

// Close discards the upload unless it was committed.
func (u *upload) Close() error {
	if !u.end() {
		return nil
	}
	return u.fail("discard", u.discard())
}

// discard removes the temporary file, even if the context has ended.
func (u *upload) discard() error {
	_ = u.f.close(false) // without truncating the file, because it is removed next
	ctx, cancel := context.WithTimeout(context.WithoutCancel(u.ctx), u.c.config.Timeout)
	defer cancel()
	err := removeIfAny(ctx, u.c, u.temp)
	if err != nil {
		u.c.run.noteLeftover()
	}
	return err
}
