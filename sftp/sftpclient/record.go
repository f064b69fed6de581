package sftpclient

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"sync"

	"github.com/haul-project/haul/sftp/internal/mux"
	"github.com/haul-project/haul/sftp/internal/uploadrecord"
	"github.com/haul-project/haul/sftp/internal/wire"
	"github.com/haul-project/haul/store"
)

// An uploadRecord is the file with the record of an upload.
type uploadRecord struct {
	c      *Client
	name   string
	token  string // the random part of the temporary file's name
	size   int64  // Create.Size
	source uint64 // of Create.Source

	mu      sync.Mutex // held while the record is written
	seq     uint64     // mu: of the last one
	marked  int64      // mu: how many bytes the record says are whole
	closing bool       // mu: the next record is the last
	lost    bool       // mu: it belongs to another upload by now
	blind   bool       // mu: the server does not let it be read, so nothing can be resumed
}

// read reads the record of an earlier upload. ok is false if there is none.
func (u *uploadRecord) read(ctx context.Context) (r uploadrecord.Record, ok bool, err error) {
	f, err := openRegular(ctx, u.c, u.name)
	if err != nil {
		if isStatus(err) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			err = nil // startOver will fail with it
		}
		return r, false, err
	}
	defer f.Close()
	r, ok, _ = recordIn(f)
	return r, ok, nil
}

// recordIn returns the record in a file, or false if there is none.
func recordIn(f *File) (r uploadrecord.Record, ok bool, err error) {
	b := make([]byte, 2*uploadrecord.Slot)
	n, err := f.ReadAt(b, 0) // what is missing is no record
	if errors.Is(err, io.EOF) {
		err = nil
	}
	r, ok = uploadrecord.Newest(b[:n])
	return r, ok, err
}

// openRegular opens a file for reading that is accessible to this user alone. For any other file
// the error is fs.ErrPermission without a [StatusError].
func openRegular(ctx context.Context, c *Client, name string) (*File, error) {
	fi, err := c.Lstat(ctx, name)
	if err != nil {
		return nil, err
	}
	if !fi.Mode().IsRegular() || fi.Mode().Perm() != firstPerm {
		return nil, fs.ErrPermission
	}
	return c.OpenFile(ctx, name, os.O_RDONLY, 0)
}

// mark records that the first whole bytes are there. If the file is not nil, it first has the
// server write them to its disk. If the record belongs to another upload by now, mark leaves it
// alone, and this upload continues without a record. The caller holds mu.
func (u *uploadRecord) mark(ctx context.Context, whole int64, file *mux.File) error {
	if u.lost {
		return store.ErrBusy
	}
	if file != nil && u.c.server.Ext.Has(wire.ExtFsync) {
		err := file.Ask(ctx, mux.Call{Take: mux.TakeOK, Again: true, Slow: true}, wire.AppendFsync)
		if err != nil {
			return err
		}
	}
	// One handle reads and writes it: if another upload puts its own record in this place
	// meanwhile, that is another file.
	f, err := u.c.OpenFile(ctx, u.name, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		u.lost = true
		return store.ErrBusy
	}
	if err != nil {
		u.blind = errors.Is(err, fs.ErrPermission)
		return err
	}
	// Users who may only upload cannot read the record. Nobody else can replace it either.
	now, ok, err := recordIn(f)
	if !errors.Is(err, fs.ErrPermission) && (!ok || now.File != u.token) {
		_ = f.Close()
		u.lost = true
		return store.ErrBusy
	}
	r := u.state(whole)
	// begin begins with 1, in the first place.
	_, err = f.WriteAt(r.AppendTo(nil), int64((r.Seq+1)%2)*uploadrecord.Slot)
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		u.seq, u.marked = r.Seq, whole
	}
	return err
}

// state returns the next record.
func (u *uploadRecord) state(whole int64) uploadrecord.Record {
	return uploadrecord.Record{Seq: u.seq + 1, Whole: whole, Size: u.size, Source: u.source, Open: !u.closing, File: u.token}
}

// begin replaces the record that is there by one of this upload. The caller holds mu, or is the
// only user.
func (u *uploadRecord) begin(ctx context.Context, whole int64) error {
	r := u.state(whole)
	if err := createEmpty(ctx, u.c, u.name, r.AppendTo(nil)); err != nil {
		return err
	}
	u.seq, u.marked = r.Seq, whole
	return nil
}

// remove removes the record if it belongs to this upload. Without the file, a record that is left
// has no effect. The caller holds mu.
func (u *uploadRecord) remove(ctx context.Context) {
	ours, err := u.whose(ctx)
	if isStatus(err) && errors.Is(err, fs.ErrPermission) && u.seq > 0 {
		ours = true // users who may upload only cannot read, and can remove only their own files
	}
	if !u.lost && ours {
		_ = removeIfAny(ctx, u.c, u.name)
	}
}

// whose reports whether the record belongs to this upload.
func (u *uploadRecord) whose(ctx context.Context) (ours bool, err error) {
	f, err := openRegular(ctx, u.c, u.name)
	if err != nil {
		return false, err
	}
	defer f.Close()
	r, ok, err := recordIn(f)
	return ok && r.File == u.token, err
}

// maxCreateTries is how many times createEmpty finds the name in use before it fails.
const maxCreateTries = 3

// createEmpty creates a new file with some content, and closes it. It replaces an existing one.
func createEmpty(ctx context.Context, c *Client, name string, content []byte) error {
	for tries := 1; ; tries++ {
		f, err := c.OpenFile(ctx, name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, firstPerm)
		if err == nil {
			if len(content) > 0 {
				_, err = f.WriteAt(content, 0)
			}
			f.noteWrite()
			if e := f.Close(); err == nil {
				err = e
			}
			return err
		}
		if !errors.Is(err, fs.ErrExist) && !isFailure(err) || tries == maxCreateTries {
			return err
		}
		if err := removeIfAny(ctx, c, name); err != nil {
			return err
		}
	}
}

// removeIfAny removes a file, if it is there.
func removeIfAny(ctx context.Context, c *Client, name string) error {
	err := c.RemoveFile(ctx, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
