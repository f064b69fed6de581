package localdir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/internal/rules"
)

// Create begins an upload. It fails with [store.ErrNoSpace] if c.Size exceeds the available space
// of the file system, which only Linux and macOS report. Nothing is reserved: a peer that announces
// a large file uses no more of the disk than it sends.
//
// If a page of zeros comes after all other data written so far, it becomes a hole, so a sparse disk
// image that arrives in order stays sparse. The check of c.Size does not consider holes: if an
// image fits on the disk only because of its holes, leave Size 0.
//
// With c.Parents, the missing directories above the file are made at once, because the temporary
// file is created in the last of them. If the upload fails, those that it made and that are empty
// are removed again. The file may have at most 64 directories above it.
//
// With c.Resume, the upload waits for the disk after each 16 MiB and at Close, so that at most that
// much data has to be sent again, even if the machine crashes. On a file system without locks, an
// upload cannot be resumed.
func (d *Dir) Create(ctx context.Context, name string, c store.Create) (store.Upload, error) {
	if err := rules.CheckName(ctx, name); err != nil {
		return nil, d.fail("create", name, err)
	}
	c.NoSync = c.NoSync || d.NoSync
	for tries := 1; ; tries++ {
		u := &dirUpload{store: d, name: name, c: c}
		if c.Parents {
			d.makers.enter(u)
		}
		up, err := u.begin()
		if err == nil {
			return up, nil
		}
		_ = u.discard() // if this fails, a sweep removes the files that are left
		// Another upload may have made the directory, failed, and removed it just now: then try
		// again.
		if !c.Parents || !errors.Is(err, fs.ErrNotExist) || tries == maxParentTries {
			return nil, u.fail("create", err)
		}
	}
}

// begin opens the files of the upload. It returns u or, with Create.Resume, a resumableUpload
// around u.
func (u *dirUpload) begin() (up store.Upload, err error) {
	u.dir, u.base, err = u.store.resolve(u.name, !u.c.Exclusive)
	if u.c.Parents && errors.Is(err, fs.ErrNotExist) {
		if err = u.makeParents(); err == nil {
			u.dir, u.base, err = u.store.resolve(u.name, !u.c.Exclusive)
		}
	}
	if err != nil {
		return nil, err
	}
	if isTemp(u.base) {
		return nil, rules.ErrReserved
	}
	if _, err := u.perm(); err == store.ErrNotRegular && u.store.Native {
		return nil, store.ErrInPlace // a device cannot be replaced by an upload, but can be written in place
	} else if err != nil {
		return nil, err
	}
	if u.c.Resume != "" {
		k, err := u.resume()
		if err == nil {
			if err = u.checkSpace(k.resumed); err != nil && k.resumed > 0 {
				_ = k.keep() // keep the data, so that the upload can be resumed when there is more room
			}
			return k, err
		}
		if !errors.Is(err, errors.ErrUnsupported) {
			return nil, err
		}
		_ = u.removeTemp()
		u.file, u.temp = nil, ""
	}
	if u.store.Native {
		err = u.openReplacing()
	} else {
		err = u.openTemp(firstPerm(u.c.Perm, u.store.Native))
	}
	if err != nil {
		return nil, err
	}
	return u, u.checkSpace(0)
}

// checkSpace returns an error if the file system lacks room for the announced size minus the
// `there` bytes that an earlier upload left. If a file system does not report its room, the upload
// may proceed.
func (u *dirUpload) checkSpace(there int64) error {
	need := u.c.Size - there
	if need <= 0 {
		return nil
	}
	return u.call("space", func() error {
		s, err := space(u.file)
		if err != nil || s.Total == 0 { // some FUSE file systems report a size of 0
			return nil
		}
		room := s.Available
		if os.Geteuid() == 0 {
			room = s.Free // root may use the reserved blocks too
		}
		if need > room {
			return fmt.Errorf("%d bytes are announced, and %d are free: %w", need, room, syscall.ENOSPC)
		}
		return nil
	})
}
