package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/internal/rules"
)

const (
	// maxCopy is the size, in bytes, of the largest object that S3 copies in one request. Larger
	// objects are copied in ranges of copyPart bytes. copyParallel ranges are copied at the same
	// time.
	maxCopy      = 5 << 30
	copyPart     = 512 << 20
	copyParallel = 4

	// removeBatch is the largest number of objects that are removed in one request.
	removeBatch = 1000
)

// lacks returns an error that says that S3 does not support an operation or, if the name is invalid,
// that it is invalid.
func (s *Store) lacks(ctx context.Context, name, text string) error {
	if _, err := s.key(ctx, name); err != nil {
		return err
	}
	return fmt.Errorf("%w: %s", errors.ErrUnsupported, text)
}

// Mkdir returns errors.ErrUnsupported: a directory exists as soon as it contains a file.
func (s *Store) Mkdir(ctx context.Context, name string, _ fs.FileMode) error {
	return s.fail("mkdir", name, s.lacks(ctx, name, "S3 has no directories to make: one comes with its first file"))
}

// Link returns errors.ErrUnsupported: an object has only one name.
func (s *Store) Link(ctx context.Context, from, to string) error {
	_, err := s.key(ctx, from)
	if err == nil {
		err = s.lacks(ctx, to, "an object has one name")
	}
	return s.fail("link", to, err)
}

// Symlink returns errors.ErrUnsupported: S3 has no symbolic links.
func (s *Store) Symlink(ctx context.Context, _, name string) error {
	return s.fail("symlink", name, s.lacks(ctx, name, "S3 has no symbolic links"))
}

// Readlink returns fs.ErrInvalid, because no name is a symbolic link.
func (s *Store) Readlink(ctx context.Context, name string) (string, error) {
	_, err := s.stat(ctx, name)
	if err == nil {
		err = rules.ErrNotLink
	}
	return "", s.fail("readlink", name, err)
}

// SetAttr returns errors.ErrUnsupported: the attributes of an object cannot be set.
func (s *Store) SetAttr(ctx context.Context, name string, a store.Attr, _ bool) error {
	err := a.Check()
	if err == nil {
		err = s.lacks(ctx, name, "an object has the time of its upload, and neither owner nor permissions")
	}
	return s.fail("setattr", name, err)
}

// Space returns errors.ErrUnsupported: S3 does not report free space.
func (s *Store) Space(ctx context.Context, name string) (store.Space, error) {
	return store.Space{}, s.fail("statfs", name, s.lacks(ctx, name, "S3 does not say how much room there is"))
}

// Remove removes a file.
func (s *Store) Remove(ctx context.Context, name string) error {
	return s.fail("remove", name, s.remove(ctx, name))
}

func (s *Store) remove(ctx context.Context, name string) error {
	if name == "." {
		return rules.ErrIsDir
	}
	switch i, err := s.stat(ctx, name); {
	case err != nil:
		return err
	case i.dir:
		return rules.ErrIsDir
	}
	return s.removeKey(ctx, s.prefix+name)
}

// RemoveDir removes a directory that contains no files, but exists because of an object whose key
// is the directory's name with a slash. Web consoles create such objects.
func (s *Store) RemoveDir(ctx context.Context, name string) error {
	return s.fail("rmdir", name, s.removeDir(ctx, name))
}

func (s *Store) removeDir(ctx context.Context, name string) error {
	if name == "." {
		return rules.ErrRoot
	}
	prefix, err := s.dirPrefix(ctx, name)
	if err != nil {
		return err
	}
	l := s.list(ctx, prefix, true)
	defer l.close()
	only, err := l.entry()
	if err == io.EOF {
		return fs.ErrNotExist
	}
	if err != nil {
		return err
	}
	if _, err := l.entry(); err != io.EOF || only.Key != prefix {
		if err == nil || err == io.EOF {
			err = fs.ErrExist
		}
		return err
	}
	return s.removeKey(ctx, prefix)
}

// removeTree removes all objects in a directory, even those whose keys are not valid file names.
func (s *Store) removeTree(ctx context.Context, name string) error {
	return s.fail("remove", name, s.removeAll(ctx, name))
}

func (s *Store) removeAll(ctx context.Context, name string) error {
	prefix, err := s.dirPrefix(ctx, name)
	if err != nil {
		return err
	}
	l := s.list(ctx, prefix, true)
	defer l.close()
	var batch []string
	for n := 0; ; n++ {
		o, err := l.entry()
		switch {
		case err == io.EOF && n == 0 && name != ".":
			return fs.ErrNotExist
		case err != nil && err != io.EOF:
			return err
		case err == nil:
			batch = append(batch, o.Key)
		}
		if len(batch) == removeBatch || err == io.EOF && len(batch) > 0 {
			if err := s.removeKeys(ctx, batch); err != nil {
				return err
			}
			batch = batch[:0]
		}
		if err == io.EOF {
			return nil
		}
	}
}

// Rename copies a file and then removes the original, because S3 cannot rename. So both names exist
// for a while, and stay if the process dies in between. For a directory, Rename returns
// errors.ErrUnsupported. Without replace, a file that gets the new name meanwhile is not
// overwritten.
func (s *Store) Rename(ctx context.Context, from, to string, replace bool) error {
	return s.fail("rename", from, s.rename(ctx, from, to, replace))
}

func (s *Store) rename(ctx context.Context, from, to string, replace bool) error {
	if from == "." || to == "." {
		return rules.ErrRoot
	}
	target, err := s.key(ctx, to)
	if err != nil {
		return err
	}
	i, err := s.stat(ctx, from)
	switch {
	case err != nil:
		return err
	case i.dir:
		return s.lacks(ctx, from, "S3 renames nothing: haul copies a file to its new name and removes it, and does not do that with directories")
	case i.version() == "":
		return errUnsettled
	case from == to && replace:
		return nil
	case from == to:
		return fmt.Errorf("%s: %w", s.URL(to), fs.ErrExist)
	}
	switch old, err := s.stat(ctx, to); {
	case err == nil && (!replace || old.dir):
		return fmt.Errorf("%s: %w", s.URL(to), fs.ErrExist)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if err := s.copy(ctx, s.bucket, s.prefix+from, target, i, replace); err != nil {
		return fmt.Errorf("to copy it to %s: %w", s.URL(to), err)
	}
	now, err := s.head(ctx, from, s.prefix+from)
	if err == nil && !now.same(i) {
		err = store.ErrChanged
	}
	if err == nil {
		err = s.removeKey(ctx, s.prefix+from)
	}
	if err != nil {
		return fmt.Errorf("it is at %s now, and could not be removed here: %w", s.URL(to), err)
	}
	return nil
}
