package treecopy

import (
	"errors"
	"fmt"
	"io/fs"
)

// Kinds of errors, besides those of package store.
var (
	// ErrDirectory says that a source is a directory, and Recursive is not set.
	ErrDirectory = errors.New("is a directory")

	// ErrConflict says that two sources would become the same, or that something
	// of another kind has the name.
	ErrConflict = errors.New("is in the way")

	// ErrChanged says that a source changed while it was copied.
	ErrChanged = errors.New("changed while it was copied")

	// ErrNoVersion says that nothing distinguishes the versions of a source.
	ErrNoVersion = errors.New("the server does not say which version of the file it sends (it takes a strong ETag, or a Last-Modified that is not new)")

	// ErrNotKept says that a target keeps nothing of a file that was cut off.
	ErrNotKept = errors.New("the target keeps no parts of files")

	// ErrDiffers says that a copy, once it was there, was not what its source is.
	ErrDiffers = errors.New("the copy is not the same as its source")

	// ErrLoop says that a symbolic link was to be followed and leads to a directory
	// that it is in.
	ErrLoop = errors.New("leads back to a directory that it is in")

	// ErrEmpty says that a directory was not made, as there are no files in it, and
	// the target has none without: see [store.Features].ImpliedDirs.
	ErrEmpty = errors.New("a directory without files, which cannot be made there")

	// ErrTooManyDirs says that there are more directories than Options.MaxDirs.
	ErrTooManyDirs = errors.New("too many directories")

	// ErrTooManyDeletions says that more would be deleted than Deletion.Max. Nothing was.
	ErrTooManyDeletions = errors.New("nothing was deleted")

	// ErrEmptySource says that there is nothing in the source, and so all of the target
	// would be deleted. See Deletion.EmptySource. Nothing was.
	ErrEmptySource = errors.New("nothing was deleted, as the source has nothing to copy: it may be a file system that is not mounted")

	// ErrUnsafeName says that a listing has a name that no entry may have.
	ErrUnsafeName = errors.New("a name that is not safe")
)

// MaxErrors is how many errors of entries are kept. All are counted.
const MaxErrors = 100

// An IncompleteError says that some of what was to be copied was not. It wraps
// the errors it has.
type IncompleteError struct {
	Failed int64   // entries
	Errors []error // the first of them, [*EntryError]s, up to MaxErrors; in front of them what ended the copy early
}

// Error says how many failed, and the first reason.
func (e *IncompleteError) Error() string {
	switch {
	case e.Failed == 1 && len(e.Errors) == 1:
		return e.Errors[0].Error()
	case len(e.Errors) == 0:
		return fmt.Sprintf("%d entries were not copied", e.Failed)
	}
	return fmt.Sprintf("%d entries were not copied; the first: %v", e.Failed, e.Errors[0])
}

// Unwrap returns the errors of the entries.
func (e *IncompleteError) Unwrap() []error { return e.Errors }

// An EntryError says why an entry was not copied, or not deleted.
type EntryError struct {
	From string // in the tree of its source, or as that is shown; "" for one of the target that is to be deleted
	To   string // in the tree of the target; "" if it has no name there
	Err  error
}

// Error names the entry, and says what went wrong. Bytes that could harm a
// terminal are escaped.
func (e *EntryError) Error() string {
	if e.From == "" {
		return fmt.Sprintf("delete %s: %v", printable(e.To), e.Err)
	}
	return fmt.Sprintf("copy %s: %v", printable(e.From), e.Err)
}

// Unwrap returns the reason.
func (e *EntryError) Unwrap() error { return e.Err }

// inTheWay is the error for something of another kind that has the name.
func inTheWay(fi fs.FileInfo) error {
	what := "something that is no file"
	switch fi.Mode().Type() {
	case fs.ModeDir:
		what = "a directory"
	case fs.ModeSymlink:
		what = "a symbolic link"
	case 0:
		what = "a file"
	}
	return fmt.Errorf("%s %w", what, ErrConflict)
}

// errSameName says that two sources would become the same.
var errSameName error = sameNameError{}

type sameNameError struct{}

func (sameNameError) Error() string        { return "same name twice" }
func (sameNameError) Is(target error) bool { return target == ErrConflict }
