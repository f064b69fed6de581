package treecopy

import (
	"errors"
	"fmt"
	"io/fs"
)

// These are errors in addition to those of package store.
var (
	// ErrDirectory says that a source is a directory, but Options.Recursive is not set.
	ErrDirectory = errors.New("is a directory")

	// ErrConflict says that two sources would get the same name, or that an entry of another kind
	// already has the name in the target.
	ErrConflict = errors.New("is in the way")

	// ErrChanged says that a source changed while it was copied.
	ErrChanged = errors.New("changed while it was copied")

	// errNoVersion says that the server of a source does not distinguish versions of the file.
	errNoVersion = errors.New("the server does not say which version of the file it sends (it takes a strong ETag, or a Last-Modified that is not new)")

	// errNotKept says that the target does not keep a partial file if its copy is interrupted.
	errNotKept = errors.New("the target keeps no parts of files")

	// ErrDiffers says that a complete copy differs from its source.
	ErrDiffers = errors.New("the copy is not the same as its source")

	// errLoop says that a symbolic link, which was to be followed, leads to a directory that
	// contains the link.
	errLoop = errors.New("leads back to a directory that it is in")

	// ErrEmpty says that a directory was not made, because it contains no files and the target
	// cannot have empty directories: see [store.Features].ImpliedDirs.
	ErrEmpty = errors.New("a directory without files, which cannot be made there")

	// errTooManyDirs says that there are more directories than Options.MaxDirs.
	errTooManyDirs = errors.New("too many directories")

	// ErrTooManyDeletions says that more entries were to be deleted than Deletion.Max allows.
	// Nothing was deleted.
	ErrTooManyDeletions = errors.New("nothing was deleted")

	// ErrEmptySource says that the source is empty, so that everything in the target would have
	// been deleted. See Deletion.EmptySource. Nothing was deleted.
	ErrEmptySource = errors.New("nothing was deleted, as the source has nothing to copy: it may be a file system that is not mounted")

	// ErrUnsafeName says that a listing contains a name that could do harm, such as one with a
	// slash.
	ErrUnsafeName = errors.New("a name that is not safe")
)

// maxErrors is how many errors of entries are kept. The others are only counted.
const maxErrors = 100

// An IncompleteError says that some entries were not copied. It wraps their errors.
type IncompleteError struct {
	Failed int64 // number of entries that were not copied
	// Errors holds the first errors, up to 100, as [*EntryError]s. If an error ended the copy
	// early, that error comes before them.
	Errors []error
}

// Error returns the text of the only error, or else the number of failed entries and the first
// error.
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

// An EntryError says why an entry was not copied or not deleted.
type EntryError struct {
	// From is the name in the tree of the entry's source, or the name for messages. It is "" for an
	// entry of the target that was to be deleted.
	From string
	To   string // name in the tree of the target; "" if the entry has none
	Err  error
}

// Error returns the entry's name and the error. Bytes that could harm a terminal are escaped.
func (e *EntryError) Error() string {
	if e.From == "" {
		return fmt.Sprintf("delete %s: %v", printable(e.To), e.Err)
	}
	return fmt.Sprintf("copy %s: %v", printable(e.From), e.Err)
}

// Unwrap returns the reason, without the names.
func (e *EntryError) Unwrap() error { return e.Err }

// inTheWay returns the error that says which kind of entry already has the name.
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

// errSameName says that two sources would get the same name.
var errSameName error = sameNameError{}

type sameNameError struct{}

func (sameNameError) Error() string        { return "same name twice" }
func (sameNameError) Is(target error) bool { return target == ErrConflict }
