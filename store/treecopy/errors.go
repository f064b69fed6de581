package treecopy

import (
	"errors"
	"fmt"
	"io/fs"
)

// Kinds of errors, besides those of package store.
var (
	// ErrDirectory means that a source is a directory, and Recursive is not set.
	ErrDirectory = errors.New("is a directory")

	// ErrConflict means that two sources would get the same name, or that an entry of another kind
	// already has the name.
	ErrConflict = errors.New("is in the way")

	// ErrChanged means that a source changed while it was copied.
	ErrChanged = errors.New("changed while it was copied")

	// errNoVersion means that nothing distinguishes the versions of a source.
	errNoVersion = errors.New("the server does not say which version of the file it sends (it takes a strong ETag, or a Last-Modified that is not new)")

	// errNotKept means that a target does not keep the copied part of a file when its copy is
	// interrupted.
	errNotKept = errors.New("the target keeps no parts of files")

	// ErrDiffers means that a complete copy differs from its source.
	ErrDiffers = errors.New("the copy is not the same as its source")

	// errLoop means that a symbolic link that should be followed leads to a directory that contains
	// the link.
	errLoop = errors.New("leads back to a directory that it is in")

	// ErrEmpty means that a directory was not made because it contains no files, and the target
	// does not support empty directories: see [store.Features].ImpliedDirs.
	ErrEmpty = errors.New("a directory without files, which cannot be made there")

	// errTooManyDirs means that there are more directories than Options.MaxDirs.
	errTooManyDirs = errors.New("too many directories")

	// ErrTooManyDeletions means that there were more entries to delete than Deletion.Max. Nothing
	// was deleted.
	ErrTooManyDeletions = errors.New("nothing was deleted")

	// ErrEmptySource means that the source is empty, so that everything in the target would be
	// deleted. See Deletion.EmptySource. Nothing was deleted.
	ErrEmptySource = errors.New("nothing was deleted, as the source has nothing to copy: it may be a file system that is not mounted")

	// ErrUnsafeName means that a listing contains a name that no entry may have.
	ErrUnsafeName = errors.New("a name that is not safe")
)

// maxErrors is how many errors of entries are kept. All errors are counted.
const maxErrors = 100

// An IncompleteError means that some entries were not copied. It wraps their errors.
type IncompleteError struct {
	Failed int64   // entries
	Errors []error // the first errors, as [*EntryError]s, up to 100; before them the error that ended the copy early, if any
}

// Error returns the number of failed entries, and the first error.
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
	From string // name in the tree of its source, or the name for messages; "" for an entry of the target that is to be deleted
	To   string // name in the tree of the target; "" if it has none
	Err  error
}

// Error returns the entry's name and the error. Bytes that could harm a terminal are escaped.
func (e *EntryError) Error() string {
	if e.From == "" {
		return fmt.Sprintf("delete %s: %v", printable(e.To), e.Err)
	}
	return fmt.Sprintf("copy %s: %v", printable(e.From), e.Err)
}

// Unwrap returns the reason.
func (e *EntryError) Unwrap() error { return e.Err }

// inTheWay returns the error for an entry of another kind that has the name.
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

// errSameName means that two sources would get the same name.
var errSameName error = sameNameError{}

type sameNameError struct{}

func (sameNameError) Error() string        { return "same name twice" }
func (sameNameError) Is(target error) bool { return target == ErrConflict }
