package localdir

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"

	"github.com/haul-project/haul/internal/tempname"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/internal/rules"
)

// RemoveIf removes a file that nothing has changed: see [store.RemoveIf].
func (d *Dir) RemoveIf(ctx context.Context, name string, was fs.FileInfo) error {
	fi, err := d.lstat(ctx, name)
	if err == nil && fi.IsDir() {
		err = rules.ErrIsDir
	}
	if err == nil {
		err = d.removeUnchanged(name, was)
	}
	if err != nil {
		return d.fail("remove", name, err)
	}
	return nil
}

func (d *Dir) removeUnchanged(name string, was fs.FileInfo) error {
	parent, _ := path.Split(name)
	base := tempname.New(tempname.Random(), tempname.Part)
	hidden := parent + base
	dir, _, err := d.openParent(parent, base)
	if err != nil {
		return err
	}
	defer dir.Close()
	// Nothing else has the random name, and this rename is one step on every system.
	if err := d.rename(name, hidden, true); err != nil {
		return err
	}
	fi, err := dir.Lstat(base)
	if err == nil && fi.Mode().Type() == fs.ModeSymlink {
		fi, err = d.root.Stat(hidden)
	}
	if err == nil && os.SameFile(fi, was) && fi.Size() == was.Size() && fi.ModTime().Equal(was.ModTime()) {
		err = d.call("remove", func() error { return d.unlink(hidden) })
		if err == nil || errors.Is(err, fs.ErrNotExist) { // a sweep was quicker
			return nil
		}
	} else {
		err = store.ErrChanged
	}
	backErr := d.rename(hidden, name, false)
	if errors.Is(backErr, fs.ErrExist) {
		backErr = d.unlink(hidden)
	}
	return errors.Join(err, backErr)
}
