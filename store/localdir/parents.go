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
	// maxParents is the largest number of directories above a file whose missing directories are
	// made. A sweep does not look into deeper ones.
	maxParents = maxSweepDepth

	// maxParentTries bounds the attempts to make them, as other uploads that fail may remove
	// directories that were just found.
	maxParentTries = 8

	parentPerm = 0o755 // as in [store.Tree].Mkdir
)

var errDeep = fmt.Errorf("%w: a file more than %d directories down, some of which are missing", fs.ErrInvalid, maxParents)

// makeParents makes the missing directories of the upload's name. They are durable before any file
// in them can be.
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

// makeParent makes a directory, unless there is one. If the name is not that of a directory, it is
// left alone, even if it is a link that leads nowhere.
func (u *dirUpload) makeParent(name string) error {
	fi, err := u.store.root.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		if isTemp(name) {
			return rules.ErrReserved
		}
		if err = u.mkdir(name); err == nil {
			return nil
		}
		if errors.Is(err, fs.ErrExist) { // another upload made it just now
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

// enter registers an upload. Call it before the upload looks for its directory.
func (m *makers) enter(u *dirUpload) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.all == nil {
		m.all = map[*dirUpload]bool{}
	}
	m.all[u] = true
}

// inherit makes an upload responsible for removing directories if it fails.
func (m *makers) inherit(u *dirUpload, dirs []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	u.inheritLocked(dirs)
}

// inheritLocked is inherit for a caller that holds mu of the makers.
func (u *dirUpload) inheritLocked(dirs []string) {
	u.made = append(u.made, dirs...)
	slices.SortFunc(u.made, func(a, b string) int { return cmp.Compare(len(a), len(b)) }) // all are above the upload
}

// keep leaves the directories of an upload, since its file is published.
func (m *makers) keep(u *dirUpload) {
	if !u.c.Parents {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.all, u)
	u.made = nil
}

// heir returns an upload into a directory, or nil. The caller holds mu.
func (m *makers) heir(dir string) *dirUpload {
	for u := range m.all {
		if strings.HasPrefix(u.name, dir+"/") {
			return u
		}
	}
	return nil
}

// unmakeParents removes the directories that the upload made, if they are empty. If another upload
// needs them, it makes that one responsible for them instead. The upload's own file has its name or
// is removed by now.
func (u *dirUpload) unmakeParents() {
	if !u.c.Parents {
		return
	}
	m := &u.store.makers
	m.mu.Lock() // held during the removal too, as another upload might be about to begin
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
