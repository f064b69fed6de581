package store

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

const (
	// maxParents is how many directories may be above a file whose missing ones are
	// made: those further down no sweep would look into.
	maxParents = maxSweepDepth

	// maxParentTries is how often they are made in a row: others that come to
	// nothing may remove what was just found.
	maxParentTries = 8

	parentPerm = 0o755 // those of [Tree].Mkdir
)

var errDeep = fmt.Errorf("%w: a file more than %d directories down, some of which are missing", fs.ErrInvalid, maxParents)

// makeParents makes the directories of the upload's name that are missing. They
// are durable before anybody's file in them can be.
func (u *dirUpload) makeParents() error {
	switch {
	case isTemp(u.name):
		return errReserved
	case strings.Count(u.name, "/") > maxParents:
		return errDeep
	}
	for i := range len(u.name) {
		if u.name[i] != '/' {
			continue
		}
		if err := u.makeParent(u.name[:i]); err != nil {
			return err
		}
	}
	return nil
}

// makeParent makes a directory, unless there is one. What is no directory stays: a
// link that leads nowhere, too.
func (u *dirUpload) makeParent(name string) error {
	fi, err := u.store.root.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		if isTemp(name) {
			return errReserved
		}
		if err = u.store.mkdir(name, parentPerm); err == nil {
			u.made = append(u.made, name)
			return u.syncParent(name)
		}
		if errors.Is(err, fs.ErrExist) { // made by another just now
			fi, err = u.store.root.Stat(name)
		}
	}
	if err == nil && !fi.IsDir() {
		err = fs.ErrNotExist
	}
	return err
}

// syncParent makes the name of a directory durable.
func (u *dirUpload) syncParent(name string) error {
	if u.c.NoSync {
		return nil
	}
	above, err := u.store.root.OpenRoot("./" + path.Dir(name) + "/.")
	if err != nil {
		return err
	}
	defer above.Close()
	return u.call("syncdir", func() error { return syncDir(above) })
}

// unmakeParents removes the directories that were made, if nothing is in them: no
// hidden file either, which another upload may have by now.
func (u *dirUpload) unmakeParents() {
	for _, name := range slices.Backward(u.made) {
		if err := u.call("rmdir", func() error { return u.store.rmdir(name) }); err != nil {
			break
		}
	}
	u.made = nil
}
