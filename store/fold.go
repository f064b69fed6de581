package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"unicode/utf8"
)

// maxFoldDepth is the largest number of elements in a name that is matched without regard to case.
// A name with more elements is found only if its case is exact.
const maxFoldDepth = 64

// FoldCase returns a store with the files of s. If a name does not exist exactly as given, the
// store matches it without regard to case, for clients whose firmware or configuration spells names
// in another case. FoldCase returns an error if the [Capabilities] of s do not include ReadDir. The
// result has ReadDir too.
//
// A name is matched element by element. An exact match wins; without an exact match, the first
// match in byte order wins. Names are compared by [strings.EqualFold]: letter by letter, so a
// composed Unicode letter does not match its decomposed form.
//
// Create matches names too: an upload replaces the file that a read of the same name would return,
// and an exclusive upload fails if there is such a file. Commit, however, checks only the exact
// name.
//
// If the exact name exists, matching costs nothing. Otherwise each element that differs costs one
// listing of a directory. A directory in which clients often request missing names should therefore
// have no more than some thousand entries.
func FoldCase(s Store) (Store, error) {
	of := CapabilitiesOf(s)
	if of.ReadDir == nil {
		return nil, fmt.Errorf("matching names without regard to case: %w: %T cannot list directories",
			errors.ErrUnsupported, s)
	}
	return &foldStore{Store: s, of: of}, nil
}

// A foldStore is the store that [FoldCase] returns.
type foldStore struct {
	Store
	of Capabilities // capabilities of the wrapped Store
}

// Capabilities offers ReadDir and OpenUpload, and no other capabilities of the wrapped store.
func (f *foldStore) Capabilities() Capabilities {
	return Capabilities{ReadDir: f.readDir, OpenUpload: f.of.OpenUpload}
}

func (f *foldStore) Open(ctx context.Context, name string) (File, error) {
	return folded(ctx, f, name, f.Store.Open)
}

func (f *foldStore) Stat(ctx context.Context, name string) (fs.FileInfo, error) {
	return folded(ctx, f, name, f.Store.Stat)
}

// readDir lists the directory that matches name. If several directories match, it lists only the
// first.
func (f *foldStore) readDir(ctx context.Context, name string) ([]fs.DirEntry, error) {
	return folded(ctx, f, name, f.of.ReadDir)
}

// folded calls the function get with name and returns its result. If name does not exist, folded
// calls get with the existing name that matches it.
func folded[T any](ctx context.Context, f *foldStore, name string, get func(context.Context, string) (T, error)) (T, error) {
	v, err := get(ctx, name)
	if !errors.Is(err, fs.ErrNotExist) {
		return v, err
	}
	var none T
	match, listErr := f.match(ctx, name)
	if listErr != nil {
		return none, listErr
	}
	if match == name {
		return none, err
	}
	v, matchErr := get(ctx, match)
	if errors.Is(matchErr, fs.ErrNotExist) {
		return none, err // the error that mentions the name as the caller spelled it
	}
	return v, matchErr
}

func (f *foldStore) Create(ctx context.Context, name string, c Create) (Upload, error) {
	_, err := f.Store.Stat(ctx, name)
	if errors.Is(err, fs.ErrNotExist) {
		if name, err = f.match(ctx, name); err != nil {
			return nil, err
		}
	}
	return f.Store.Create(ctx, name, c) // if Stat failed, Create fails too, and returns the error
}

// match returns the existing name that matches name. The first element that matches nothing, and
// all elements after it, are returned unchanged.
func (f *foldStore) match(ctx context.Context, name string) (string, error) {
	if strings.Count(name, "/") >= maxFoldDepth {
		return name, nil
	}
	dir, rest := ".", name
	for {
		elem, after, more := strings.Cut(rest, "/")
		found, err := f.element(ctx, dir, elem, more)
		if err != nil {
			return "", err
		}
		if found == "" {
			return path.Join(dir, rest), nil
		}
		dir, rest = path.Join(dir, found), after
		if !more {
			return dir, nil
		}
	}
}

// element returns the name of the entry of dir that matches elem, or "" if no entry matches. `more`
// means that further elements follow in the name, so the entry must be a directory, or a link that
// may lead to one.
func (f *foldStore) element(ctx context.Context, dir, elem string, more bool) (string, error) {
	fi, err := f.Store.Stat(ctx, path.Join(dir, elem))
	if err == nil && (fi.IsDir() || !more) {
		return elem, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	entries, err := f.of.ReadDir(ctx, dir)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) { // the directory was removed meanwhile
			err = nil
		}
		return "", err
	}
	for _, e := range entries {
		// EqualFold compares all invalid UTF-8 bytes as the same letter, so invalid names must not
		// match.
		if !strings.EqualFold(e.Name(), elem) || !utf8.ValidString(e.Name()) {
			continue
		}
		if !more || e.IsDir() || e.Type()&fs.ModeSymlink != 0 {
			return e.Name(), nil
		}
	}
	return "", nil
}
