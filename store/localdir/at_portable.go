//go:build !linux || haul_portable

package localdir

import (
	"errors"
	"syscall"
	"time"

	"github.com/haul-project/haul/store/internal/rules"
)

// unlink removes what is no directory. An empty directory that takes the
// file's place between the look and the removal goes too.
func (d *Dir) unlink(name string) error {
	fi, err := d.root.Lstat(name)
	if err != nil {
		return err
	}
	if fi.IsDir() {
		return rules.ErrIsDir
	}
	return d.root.Remove(name)
}

// rmdir removes an empty directory.
func (d *Dir) rmdir(name string) error {
	fi, err := d.root.Lstat(name)
	if err != nil {
		return err
	}
	if !fi.IsDir() {
		return syscall.ENOTDIR
	}
	return d.root.Remove(name)
}

func (d *Dir) rename(from, to string, replace bool) error {
	return d.renamePortably(from, to, replace)
}

func (d *Dir) lutimes(string, time.Time, time.Time) error { return errors.ErrUnsupported }
