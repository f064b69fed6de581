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

// Create begins an upload. It fails with [store.ErrNoSpace] if c.Size does not fit the
// space that the file system has available; Linux and macOS can say. Nothing is
// reserved: a peer that announces a large file takes no more of the disk than
// it sends.
//
// Pages of zeros behind everything else written so far are left out: they are
// holes, so that a sparse disk image that comes in order stays sparse. The check
// of c.Size does not know of holes: for an image that only fits the disk because
// of them, leave Size 0.
//
// With c.Parents the directories above that are missing are made at once, as the
// hidden file is in the last of them, and removed again if nothing comes of the
// upload: those that are empty then. The file may have 64 of them above it.
//
// With c.Resume the disk is waited for after each 16 MiB, and at Close, so that
// no more than those have to be sent again, even if the machine dies. Where the
// file system has no locks the upload is none that can be resumed.
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
		_ = u.discard() // what is left of it, a sweep removes
		// The directory may have been another's, who has given it up just now.
		if !c.Parents || !errors.Is(err, fs.ErrNotExist) || tries == maxParentTries {
			return nil, u.fail("create", err)
		}
	}
}

// begin returns u, or the resumable upload that it is part of.
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
		return nil, store.ErrInPlace // a device can be opened
	} else if err != nil {
		return nil, err
	}
	if u.c.Resume != "" {
		k, err := u.resume()
		if err == nil {
			if err = u.checkSpace(k.resumed); err != nil && k.resumed > 0 {
				_ = k.keep() // for when there is more room
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

// checkSpace returns an error if the file system has no room for what was
// announced, apart from the first bytes, which are there. A file system that
// cannot say how much room it has is believed to have enough.
func (u *dirUpload) checkSpace(there int64) error {
	need := u.c.Size - there
	if need <= 0 {
		return nil
	}
	return u.call("space", func() error {
		s, err := space(u.file)
		if err != nil || s.Total == 0 { // as of some that run in user space
			return nil
		}
		room := s.Available
		if os.Geteuid() == 0 {
			room = s.Free // root may use the blocks that are kept for it
		}
		if need > room {
			return fmt.Errorf("%d bytes are announced, and %d are free: %w", need, room, syscall.ENOSPC)
		}
		return nil
	})
}
