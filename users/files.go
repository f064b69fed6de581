package users

import (
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/haul-project/haul/internal/ownfile"
)

// These are permissions that certain files must not have.
const (
	openToOthers = 0o007 // any access by others
	writable     = 0o022 // writing by the group or others
)

// A loader reads files and records their state, from which [Directory.Reload] decides later whether
// to read them again.
type loader struct {
	dir  string // directory of the users file
	seen []sighting

	// owners holds the IDs of users, in addition to root, who may own files; empty means any.
	owners []int
	sum    hash.Hash // hash of everything that was read; may be nil
}

// A sighting records the state of a file when it was read.
type sighting struct {
	path string
	info fs.FileInfo // nil if the file did not exist or could not be examined
	at   time.Time   // when the file was read
}

// young is the time after a change within which a file may change again without a visible
// difference, because some file systems store times in steps of 2 s.
const young = 2 * time.Second

// unchanged reports whether all files certainly still have the state that was recorded. It returns
// false for a file that was changed shortly before it was read: see young.
func unchanged(seen []sighting) bool {
	for _, s := range seen {
		info, err := os.Stat(s.path)
		if err != nil || s.info == nil {
			if err == nil || s.info != nil {
				return false
			}
			continue
		}
		if !os.SameFile(info, s.info) || info.Size() != s.info.Size() || !info.ModTime().Equal(s.info.ModTime()) ||
			info.Mode() != s.info.Mode() || !sameOwner(info, s.info) || s.at.Sub(s.info.ModTime()) < young {
			return false
		}
	}
	return true
}

// path returns the path of a file that is named in the users file.
func (l *loader) path(name string) string {
	if filepath.IsAbs(name) {
		return filepath.Clean(name)
	}
	return filepath.Join(l.dir, name)
}

// readOurs is like read, but also checks the owner, who must be root or one of owners. It is for
// files that decide who may log in, or which key identifies the server.
func (l *loader) readOurs(path string, max int64, forbidden fs.FileMode) (string, error) {
	text, err := l.read(path, max, forbidden)
	if err != nil || len(l.owners) == 0 {
		return text, err
	}
	uid, _, ok := ownfile.OwnerOf(l.seen[len(l.seen)-1].info)
	if !ok || uid == 0 || slices.Contains(l.owners, uid) {
		return text, nil
	}
	return "", fmt.Errorf("read %s: it belongs to user %d, who is neither root nor the server's own user and could change it; chown it to one of those", path, uid)
}

// read returns the content of a regular file. It returns an error if the file has more than max
// bytes, or any of the forbidden permissions.
func (l *loader) read(path string, max int64, forbidden fs.FileMode) (string, error) {
	s := sighting{path: path, at: time.Now()}
	// Check the type before opening the file, because opening a pipe would wait for its other end.
	info, err := os.Stat(path)
	if err == nil {
		s.info = info
	}
	l.seen = append(l.seen, s)
	if err != nil {
		return "", err
	}
	if err := checkInfo(path, info, max, forbidden); err != nil {
		return "", err
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	// Check the open file, because the name may belong to another file by now.
	if info, err = f.Stat(); err != nil {
		return "", err
	}
	if err := checkInfo(path, info, max, forbidden); err != nil {
		return "", err
	}
	l.seen[len(l.seen)-1].info = info
	b, err := io.ReadAll(io.LimitReader(f, max+1))
	if err != nil {
		return "", err
	}
	if int64(len(b)) > max {
		return "", fmt.Errorf("read %s: more than %d bytes", path, max)
	}
	if l.sum != nil {
		fmt.Fprintf(l.sum, "%q %d\n%s", path, len(b), b)
	}
	return string(b), nil
}

func checkInfo(path string, info fs.FileInfo, max int64, forbidden fs.FileMode) error {
	mode := info.Mode()
	switch {
	case !mode.IsRegular():
		return fmt.Errorf("read %s: not a regular file", path)
	case info.Size() > max:
		return fmt.Errorf("read %s: %d bytes, and %d are the most", path, info.Size(), max)
	case runtime.GOOS == "windows": // Windows has no such permissions
		return nil
	case mode.Perm()&forbidden&writable != 0:
		return fmt.Errorf("read %s: others than its owner may write it (%v); chmod go-w would keep them out", path, mode)
	case mode.Perm()&forbidden != 0:
		return fmt.Errorf("read %s: everybody may read it (%v); chmod 600 would keep them out", path, mode)
	}
	return nil
}

// missing reports whether an error means that the file does not exist.
func missing(err error) bool { return errors.Is(err, fs.ErrNotExist) }
