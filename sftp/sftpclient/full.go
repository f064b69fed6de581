package sftpclient

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"sync"
	"time"

	"github.com/haul-project/haul/sftp/internal/wire"
	"github.com/haul-project/haul/store"
)

const (
	// fullTime is how long the question may take whether the server's disk is full.
	fullTime = 5 * time.Second

	// fullFor is how long the answer yes holds. When many files fail at once, those
	// that were removed first leave room, which is not why the others failed.
	fullFor = 5 * time.Second
)

// A fullError is a refusal without a reason, of a server whose disk is full.
// OpenSSH's server has no other word for that: ENOSPC is SSH_FX_FAILURE.
type fullError struct{ err error }

func (fullError) Error() string { return "the server has no space left on its disk" }

// Unwrap returns [store.ErrNoSpace] and the refusal.
func (e fullError) Unwrap() []error { return []error{store.ErrNoSpace, e.err} }

// A roomError says that a file is larger than the room on the server's disk.
type roomError struct{ free, size int64 }

func (e roomError) Error() string {
	return fmt.Sprintf("the server has %.1f MB free on its disk, and the file has %.1f MB", float64(e.free)/1e6, float64(e.size)/1e6)
}

// Unwrap returns [store.ErrNoSpace].
func (roomError) Unwrap() error { return store.ErrNoSpace }

// explain adds to the error of writing a file, or of making one, that the disk is
// full, if the server refused without a reason and its disk is. To find out it
// asks the server, even if the context has ended.
func (c *Client) explain(ctx context.Context, name string, err error) error {
	refused := (*StatusError)(nil)
	if !errors.As(err, &refused) || refused.Code != uint32(wire.Failure) || refused.kind != nil ||
		errors.Is(err, store.ErrNoSpace) || !c.isFull(ctx, path.Dir(name)) {
		return err
	}
	switch e := err.(type) {
	case *TransferError:
		full := *e
		full.Err = fullError{e.Err}
		return &full
	case *fs.PathError:
		return pathError(e.Op, e.Path, fullError{e.Err})
	}
	return fullError{err}
}

// isFull reports whether there is no room for another request of data, or for
// another file, in a directory of the server, as far as that can be asked.
func (c *Client) isFull(ctx context.Context, dir string) bool {
	if c.full.isKnown() {
		return true
	}
	if !c.server.Ext.Has(wire.ExtStatVFS) {
		return false
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fullTime)
	defer cancel()
	s, err := c.Space(ctx, dir)
	full := err == nil && s.Total > 0 && (s.Available < int64(c.server.Chunk[1]) || s.Files > 0 && s.AvailableFiles == 0)
	if full {
		c.full.note()
	}
	return full
}

// A fullDisk remembers for a while that the server's disk was full.
type fullDisk struct {
	mu    sync.Mutex
	found time.Time // mu
}

func (d *fullDisk) isKnown() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return time.Since(d.found) < fullFor
}

func (d *fullDisk) note() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.found = time.Now()
}

// explained is explain for what writing the file has failed of. The caller holds
// mu.
func (f *File) explained(err error) error {
	if err == nil {
		return nil
	}
	f.behind.err = f.c.explain(f.life, f.remote.Path, err)
	return f.behind.err
}
