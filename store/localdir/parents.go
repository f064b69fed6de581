package localdir

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/haul-project/haul/store/internal/rules"
)

const (
	// maxParents is the largest number of directories above a file for which missing directories
	// are made. A sweep does not look into deeper directories.
	maxParents = maxSweepDepth

	// maxParentTries is the largest number of attempts to make the missing directories. An attempt
	// fails if another upload, which failed, removes a directory that was just found.
	maxParentTries = 8

	parentPerm = 0o755 // the same default as in [store.Tree].Mkdir
)

var errDeep = fmt.Errorf("%w: a file more than %d directories down, some of which are missing", fs.ErrInvalid, maxParents)

// makeParents makes the missing directories above the upload's file. They are durable before any
// file in them becomes durable.
func (u *dirUpload) makeParents() error {
	switch {
	case isTemp(u.name):
		return rules.ErrReserved
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

// makeParent makes a directory unless it exists. If something else has the name, even a link that
// leads nowhere, it is left alone.
func (u *dirUpload) makeParent(name string) error {
	fi, err := u.store.root.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		if isTemp(name) {
			return rules.ErrReserved
		}
		if err = u.mkdir(name); err == nil {
			return nil
		}
		if errors.Is(err, fs.ErrExist) { // another upload has made it just now
			fi, err = u.store.root.Stat(name)
		}
	}
	if err == nil && !fi.IsDir() {
		err = fs.ErrNotExist
	}
	return err
}

// mkdir makes a directory, and makes its name durable.
func (u *dirUpload) mkdir(name string) error {
	mkdir := func() error {
		err := u.store.mkdir(name, parentPerm)
		if err == nil {
			u.store.makers.inherit(u, []string{name})
		}
		return err
	}
	if u.c.NoSync {
		return mkdir()
	}
	above, err := u.store.root.directory("./" + path.Dir(name) + "/.")
	if err != nil {
		return err
	}
	defer above.Close()
	return u.store.durably(above, mkdir)
}

// enter registers an upload. It must be called before the upload looks for its directory.
func (m *makers) enter(u *dirUpload) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.all == nil {
		m.all = map[*dirUpload]bool{}
	}
	m.all[u] = true
}

// inherit makes upload u responsible for removing dirs if u fails.
func (m *makers) inherit(u *dirUpload, dirs []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	u.inheritLocked(dirs)
}

// inheritLocked is like inherit, but the caller holds makers.mu.
func (u *dirUpload) inheritLocked(dirs []string) {
	u.made = append(u.made, dirs...)
	// All these directories are above the same file, so sorting by length puts parents first.
	slices.SortFunc(u.made, func(a, b string) int { return cmp.Compare(len(a), len(b)) })
}

// keep forgets the directories that an upload made: its file is published, so they stay.
func (m *makers) keep(u *dirUpload) {
	if !u.c.Parents {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.all, u)
	u.made = nil
}

// heir returns an upload in progress whose file is below dir, or nil. The caller holds mu.
func (m *makers) heir(dir string) *dirUpload {
	for u := range m.all {
		if strings.HasPrefix(u.name, dir+"/") {
			return u
		}
	}
	return nil
}

// unmakeParents removes the directories that the upload made, if they are empty. If another upload
// needs them, that upload becomes responsible for them instead. Before unmakeParents is called, the
// upload's own file has been published or removed.
func (u *dirUpload) unmakeParents() {
	if !u.c.Parents {
		return
	}
	m := &u.store.makers
	m.mu.Lock() // held during the removal too, because another upload might be about to use the directories
	defer m.mu.Unlock()
	delete(m.all, u)
	for i, name := range slices.Backward(u.made) {
		if h := m.heir(name); h != nil {
			h.inheritLocked(u.made[:i+1])
			break
		}
		err := u.call("rmdir", func() error { return u.store.rmdir(name) })
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	u.made = nil
}
