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
// or configuration spells names its own way. The [Capabilities] of s must include ReadDir, or
// FoldCase returns an error. Those of the store returned do, too.
//
// A name is matched element by element. An exact match wins; of several others,
// the first in byte order does. Names are equal according to [strings.EqualFold], which
// compares the letters of Unicode one to one, and not their composed forms.
//
// Create matches names too: an upload replaces the file that a
// read of the same name would get, and an exclusive one fails if there is such a file.
// Commit checks only the exact name.
//
// A name that exists exactly costs nothing. Otherwise each element that differs costs the
// listing of a directory, so a directory that is asked
// for many missing names should not have many thousand entries.
func FoldCase(s Store) (Store, error) {
	of := CapabilitiesOf(s)
	if of.ReadDir == nil {
		return nil, fmt.Errorf("matching names without regard to case: %w: %T cannot list directories",
			errors.ErrUnsupported, s)
	}
	return &foldStore{Store: s, of: of}, nil
}

// A foldStore is a store whose names also match in other cases.
type foldStore struct {
	Store
	of Capabilities // of the Store
}

// Capabilities keeps listing, and reading what is uploaded.
func (f *foldStore) Capabilities() Capabilities {
	return Capabilities{ReadDir: f.readDir, OpenUpload: f.of.OpenUpload}
}

func (f *foldStore) Open(ctx context.Context, name string) (File, error) {
	return folded(ctx, f, name, f.Store.Open)
}

func (f *foldStore) Stat(ctx context.Context, name string) (fs.FileInfo, error) {
	return folded(ctx, f, name, f.Store.Stat)
}

// readDir lists the directory that name matches, and only that one.
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

// match returns the name that exists and matches name. It leaves name unchanged from the
// first element on that nothing matches.
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

// element returns the entry of dir that matches elem, or "". With more, the entry
// can itself have entries.
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
