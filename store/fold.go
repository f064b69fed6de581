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

// maxFoldDepth is how many elements a name may have to be matched without
// regard to case; longer ones must be exact.
const maxFoldDepth = 64

// FoldCase returns a store of the files of s whose names are matched without
// regard to case where the exact name is not there: for clients whose firmware
// or configuration spells names its own way. s must be a [Lister], or FoldCase
// returns an error, and so is the store returned.
//
// A name is matched element by element. An exact match wins; of several others,
// the first in byte order. Names are equal if [strings.EqualFold] says so, which
// knows the letters of Unicode, one to one, and not their composed forms.
//
// Create looks for the name likewise: so an upload replaces the file that a
// read of the same name would get, and an exclusive one fails if there is one.
// At Commit only the exact name is looked at.
//
// A name that is there exactly costs nothing. One that is not costs the listing
// of a directory for each element that differs, so a directory that is asked
// for many missing names should not have many thousand entries.
func FoldCase(s Store) (Store, error) {
	l, ok := s.(Lister)
	if !ok {
		return nil, fmt.Errorf("matching names without regard to case: %w: %T cannot list directories",
			errors.ErrUnsupported, s)
	}
	return &foldStore{Store: s, lister: l}, nil
}

// A foldStore is a store and the names it also goes by.
type foldStore struct {
	Store
	lister Lister // the same
}

var _ Lister = (*foldStore)(nil)

func (f *foldStore) Open(ctx context.Context, name string) (File, error) {
	return folded(ctx, f, name, f.Store.Open)
}

func (f *foldStore) Stat(ctx context.Context, name string) (fs.FileInfo, error) {
	return folded(ctx, f, name, f.Store.Stat)
}

// ReadDir lists the directory that name matches, and that one only.
func (f *foldStore) ReadDir(ctx context.Context, name string) ([]fs.DirEntry, error) {
	return folded(ctx, f, name, f.lister.ReadDir)
}

// folded returns what get does for name or, if that is missing, for the name
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
		return none, err // in the caller's words
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
	return f.Store.Create(ctx, name, c) // which also says what was wrong with Stat
}

// match returns the name that exists and matches name. From the first element
// on that nothing matches, it is as it was.
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

// element returns what in dir matches elem, or "". If more is to follow, it
// is something that can have entries.
func (f *foldStore) element(ctx context.Context, dir, elem string, more bool) (string, error) {
	fi, err := f.Store.Stat(ctx, path.Join(dir, elem))
	if err == nil && (fi.IsDir() || !more) {
		return elem, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	entries, err := f.lister.ReadDir(ctx, dir)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) { // removed meanwhile
			err = nil
		}
		return "", err
	}
	for _, e := range entries {
		// EqualFold takes all that is not UTF-8 for the same letter.
		if !strings.EqualFold(e.Name(), elem) || !utf8.ValidString(e.Name()) {
			continue
		}
		if !more || e.IsDir() || e.Type()&fs.ModeSymlink != 0 {
			return e.Name(), nil
		}
	}
	return "", nil
}
