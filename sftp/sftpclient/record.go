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

// An uploadRecord is the file that holds the record of an upload: how much of its temporary file is
// complete.
type uploadRecord struct {
	c      *Client
	name   string
	token  string // the random part of the temporary file's name
	size   int64  // store.Create.Size of the upload; 0 if unknown
	source uint64 // hash of store.Create.Source of the upload

	mu      sync.Mutex // held while the record is written
	seq     uint64     // number of the last record; guarded by mu
	safe    int64      // how many bytes are complete according to the record; guarded by mu
	closing bool       // the next record is the last one; guarded by mu
	lost    bool       // the record now belongs to another upload; guarded by mu
	blind   bool       // the server does not let us read the record, so no upload can be resumed; guarded by mu
}

// read reads the record of an earlier upload. ok is false if no record is valid.
func (u *uploadRecord) read(ctx context.Context) (r uploadrecord.Record, ok bool, err error) {
	f, err := openRegular(ctx, u.c, u.name)
	if err != nil {
		if isStatus(err) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			err = nil // startOver will get the same error
		}
		return r, false, err
	}
	defer f.Close()
	r, ok, _ = recordIn(f)
	return r, ok, nil
}

// recordIn returns the record in a file. ok is false if the file has no valid record.
func recordIn(f *File) (r uploadrecord.Record, ok bool, err error) {
	b := make([]byte, 2*uploadrecord.Slot)
	n, err := f.ReadAt(b, 0) // a file that is too short has no record
	if errors.Is(err, io.EOF) {
		err = nil
	}
	r, ok = uploadrecord.Newest(b[:n])
	return r, ok, err
}

// openRegular opens a regular file for reading, if only this user may access it. For any other file
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

// checkpoint records that the first `whole` bytes are complete. If file is not nil, checkpoint
// first has the server write that file to its disk. If the record is gone or invalid, or belongs to
// another upload by now, checkpoint does not change it, and returns store.ErrBusy, as all later
// calls do. The caller holds mu.
func (u *uploadRecord) checkpoint(ctx context.Context, whole int64, file *mux.File) error {
	if u.lost {
		return store.ErrBusy
	}
	if file != nil && u.c.server.Ext.Has(wire.ExtFsync) {
		err := file.Ask(ctx, mux.Call{Take: mux.TakeOK, Again: true, Slow: true}, wire.AppendFsync)
		if err != nil {
			return err
		}
	}
	// Use one handle for reading and writing: if another upload replaces the record meanwhile, it
	// creates a new file, which this handle does not change.
	f, err := u.c.OpenFile(ctx, u.name, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		u.lost = true
		return store.ErrBusy
	}
	if err != nil {
		u.blind = errors.Is(err, fs.ErrPermission)
		return err
	}
	// Users who may only upload cannot read the record. But then nobody else can replace it.
	now, ok, err := recordIn(f)
	if !errors.Is(err, fs.ErrPermission) && (!ok || now.File != u.token) {
		_ = f.Close()
		u.lost = true
		return store.ErrBusy
	}
	r := u.state(whole)
	// begin writes record 1 into the first slot.
	_, err = f.WriteAt(r.AppendTo(nil), int64((r.Seq+1)%2)*uploadrecord.Slot)
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		u.seq, u.safe = r.Seq, whole
	}
	return err
}

// state returns the record to write next. It says that the first `whole` bytes are complete.
func (u *uploadRecord) state(whole int64) uploadrecord.Record {
	return uploadrecord.Record{Seq: u.seq + 1, Whole: whole, Size: u.size, Source: u.source, Open: !u.closing, File: u.token}
}

// begin replaces an existing record by one of this upload. The caller holds mu, or no other
// goroutine uses u yet.
func (u *uploadRecord) begin(ctx context.Context, whole int64) error {
	r := u.state(whole)
	if err := createEmpty(ctx, u.c, u.name, r.AppendTo(nil)); err != nil {
		return err
	}
	u.seq, u.safe = r.Seq, whole
	return nil
}

// remove removes the record if it belongs to this upload. A record without its temporary file has
// no effect. The caller holds mu.
func (u *uploadRecord) remove(ctx context.Context) {
	ours, err := u.whose(ctx)
	if isStatus(err) && errors.Is(err, fs.ErrPermission) && u.seq > 0 {
		ours = true // users who may only upload cannot read it, and can remove only their own files
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

// maxCreateTries is how many times createEmpty may find the name in use before it fails.
const maxCreateTries = 3

// createEmpty creates a file with the given content, and closes it. It replaces an existing file.
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

// removeIfAny removes a file. It returns nil if the file does not exist.
func removeIfAny(ctx context.Context, c *Client, name string) error {
	err := c.RemoveFile(ctx, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
