//go:build !linux || haul_portable

package localdir

import (
	"errors"
	"syscall"
	"time"

	"github.com/haul-project/haul/store/internal/rules"
)

// unlink removes a file or a link. For a directory it returns an error. There is a race: if an
// empty directory gets the name just after unlink has checked it, that directory is removed.
func (p *pathCalls) unlink(name string) error {
	fi, err := p.root.Lstat(name)
	if err != nil {
		return err
	}
	if fi.IsDir() {
		return rules.ErrIsDir
	}
	return p.root.Remove(name)
}

// rmdir removes an empty directory.
func (p *pathCalls) rmdir(name string) error {
	fi, err := p.root.Lstat(name)
	if err != nil {
		return err
	}
	if !fi.IsDir() {
		return syscall.ENOTDIR
	}
	return p.root.Remove(name)
}

func (p *pathCalls) rename(from, to string, replace bool) error {
	return p.renamePortably(from, to, replace)
}

func (p *pathCalls) lutimes(string, time.Time, time.Time) error { return errors.ErrUnsupported }
