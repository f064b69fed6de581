package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/haul-project/haul/store/internal/rules"
)

// errNoLayers is the error for an upload to a store that Layers returned without any stores.
var errNoLayers = fmt.Errorf("%w: no store to put it in", fs.ErrPermission)

// Layers returns a store that searches stores in order. Open and Stat use the first store that has
// the name.
//
// Only [fs.ErrNotExist] makes the search continue with the next store. Any other error ends the
// search: a file that may not be read, or whose disk fails, still hides files of the same name in
// the stores after it. Otherwise a failing disk could change which file a client gets.
//
// Create uses the first store. If that store has directories, the file's directory must exist
// there, or be made ([Create].Parents). With [Create].Exclusive, the name must be free in all
// stores. Nothing is atomic across several stores: only the first one guarantees that the name is
// still free at Commit.
//
// The [Capabilities] of the result include ReadDir if those of all stores do. A directory then has
// the entries of all stores; if several have an entry of the same name, the first store's entry is
// listed. Closing the stores remains the caller's task.
func Layers(stores ...Store) Store { return layers(append([]Store(nil), stores...)) }

type layers []Store

// Capabilities offers ReadDir if all stores have it, and the first store's OpenUpload.
func (l layers) Capabilities() Capabilities {
	var c Capabilities
	lists := make([]func(context.Context, string) ([]fs.DirEntry, error), len(l))
	for i, s := range l {
		of := CapabilitiesOf(s)
		if i == 0 {
			c.OpenUpload = of.OpenUpload
		}
		if lists[i] = of.ReadDir; lists[i] == nil {
			return c
		}
	}
	c.ReadDir = func(ctx context.Context, name string) ([]fs.DirEntry, error) { return readLayers(ctx, lists, name) }
	return c
}

// first calls the function get for each store, in order, and returns its first result that is not
// fs.ErrNotExist.
func first[T any](l layers, op, name string, get func(Store) (T, error)) (T, error) {
	var none T
	var missing error
	for _, s := range l {
		v, err := get(s)
		if err == nil {
			return v, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return none, err
		}
		if missing == nil {
			missing = err
		}
	}
	if missing == nil {
		missing = &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
	}
	return none, missing
}

func (l layers) Open(ctx context.Context, name string) (File, error) {
	return first(l, "open", name, func(s Store) (File, error) { return s.Open(ctx, name) })
}

func (l layers) Stat(ctx context.Context, name string) (fs.FileInfo, error) {
	return first(l, "stat", name, func(s Store) (fs.FileInfo, error) { return s.Stat(ctx, name) })
}

func (l layers) Create(ctx context.Context, name string, c Create) (Upload, error) {
	if len(l) == 0 {
		return nil, &fs.PathError{Op: "create", Path: name, Err: errNoLayers}
	}
	if !c.Exclusive {
		return l[0].Create(ctx, name, c)
	}
	if err := l[1:].vacant(ctx, "create", name); err != nil {
		return nil, err
	}
	u, err := l[0].Create(ctx, name, c)
	if err != nil {
		return nil, err
	}
	return &layersUpload{Upload: u, ctx: context.WithoutCancel(ctx), name: name, below: l[1:]}, nil
}

// vacant returns an error for operation op if any of the stores has the name.
func (l layers) vacant(ctx context.Context, op, name string) error {
	_, err := l.Stat(ctx, name)
	switch {
	case err == nil:
		return &fs.PathError{Op: op, Path: name, Err: fs.ErrExist}
	case errors.Is(err, fs.ErrNotExist):
		return nil
	}
	return err
}

// A layersUpload is an exclusive upload to the first of several stores.
type layersUpload struct {
	Upload
	ctx  context.Context // the context of Create, without its cancellation
	name string
	// below holds the stores after the first.
	below layers
}

// Unwrap is for [As].
func (u *layersUpload) Unwrap() any { return u.Upload }

// Commit first checks again that no further store has the name.
func (u *layersUpload) Commit() error {
	if err := u.below.vacant(u.ctx, "commit", u.name); err != nil {
		// A Commit that fails has to discard the file. An error from Discard does not matter,
		// because Commit returns err.
		if r, ok := As[Resumer](u.Upload); ok {
			_ = r.Discard()
		}
		_ = u.Close()
		return err
	}
	return u.Upload.Commit()
}

// readLayers lists the directory of that name in all stores, and merges the entries. lists holds
// the function ReadDir of each store.
func readLayers(ctx context.Context, lists []func(context.Context, string) ([]fs.DirEntry, error), name string) ([]fs.DirEntry, error) {
	var all []fs.DirEntry
	var missing error
	seen := map[string]bool{}
	found := false
	for _, list := range lists {
		entries, err := list(ctx, name)
		if errors.Is(err, fs.ErrNotExist) {
			missing = err
			continue
		}
		if err != nil {
			return nil, err
		}
		found = true
		for _, e := range entries {
			if !seen[e.Name()] {
				seen[e.Name()] = true
				all = append(all, e)
			}
		}
		if len(all) > rules.MaxEntries {
			return nil, &fs.PathError{Op: "readdir", Path: name, Err: rules.ErrManyEntries}
		}
	}
	if !found {
		if missing == nil {
			missing = &fs.PathError{Op: "readdir", Path: name, Err: fs.ErrNotExist}
		}
		return nil, missing
	}
	rules.SortEntries(all)
	return all, nil
}
