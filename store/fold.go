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

// maxFoldDepth is the largest number of elements of a name that is matched without regard to case.
// Longer names must be exact.
const maxFoldDepth = 64

// FoldCase returns a store with the files of s. If the exact name does not exist, it matches names
// without regard to case, for clients whose firmware or configuration spells names in another case.
// The [Capabilities] of s must include ReadDir, or FoldCase returns an error; those of the result
// include it too.
//
// A name is matched element by element. An exact match wins, else the first match in byte order.
// Names are compared by [strings.EqualFold], which compares letters of Unicode one by one, and does
// not recognize composed forms.
//
// Create matches names too: an upload replaces the file that a read of the same name would return,
// and an exclusive upload fails if there is such a file. Commit checks only the exact name.
//
// An exact name costs nothing extra. Otherwise each element that differs costs one listing of a
// directory, so a directory in which clients often ask for missing names should not have many
// thousand entries.
func FoldCase(s Store) (Store, error) {
	of := CapabilitiesOf(s)
	if of.ReadDir == nil {
		return nil, fmt.Errorf("matching names without regard to case: %w: %T cannot list directories",
			errors.ErrUnsupported, s)
	}
	return &foldStore{Store: s, of: of}, nil
}

// A foldStore also matches names in other cases.
type foldStore struct {
	Store
	of Capabilities // of the Store
}

// Capabilities keeps ReadDir and OpenUpload.
func (f *foldStore) Capabilities() Capabilities {
	return Capabilities{ReadDir: f.readDir, OpenUpload: f.of.OpenUpload}
}

func (f *foldStore) Open(ctx context.Context, name string) (File, error) {
	return folded(ctx, f, name, f.Store.Open)
}

func (f *foldStore) Stat(ctx context.Context, name string) (fs.FileInfo, error) {
	return folded(ctx, f, name, f.Store.Stat)
}

// readDir lists the directory that name matches. It does not merge several directories that match.
func (f *foldStore) readDir(ctx context.Context, name string) ([]fs.DirEntry, error) {
	return folded(ctx, f, name, f.of.ReadDir)
}

// folded returns the result of get for name or, if that is missing, for the name
// that it matches.
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
		return none, err // its text has the name that the caller gave
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
	return f.Store.Create(ctx, name, c) // also reports the error of Stat
}

// match returns the existing name that matches name. If an element has no match, match returns that
// element and the rest of name unchanged.
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

// element returns the entry of dir that matches elem, or "". more says that further elements
// follow, so the entry must be able to have entries itself.
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
		if errors.Is(err, fs.ErrNotExist) { // removed meanwhile
			err = nil
		}
		return "", err
	}
	for _, e := range entries {
		// EqualFold treats all invalid UTF-8 as the same letter.
		if !strings.EqualFold(e.Name(), elem) || !utf8.ValidString(e.Name()) {
			continue
		}
		if !more || e.IsDir() || e.Type()&fs.ModeSymlink != 0 {
			return e.Name(), nil
		}
	}
	return "", nil
}
