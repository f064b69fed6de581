package localdir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/haul-project/haul/internal/tempname"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/internal/rules"
)

// Machine returns a store of all files of this machine that the user of this process may access. It
// is for a server that runs as the user whom it serves. A name is the absolute path without the
// leading slash. Native and SpecialBits are set. Symbolic links lead to the same files as in the
// user's other programs. If the directory of an upload is moved meanwhile, the upload cannot be
// committed.
//
// On Windows the store has the files of one drive.
func Machine() *Dir {
	return &Dir{
		SpecialBits: true, Path: systemRoot{}.Name(), LinksFromRoot: true, Native: true,
		pathCalls: pathCalls{root: systemRoot{}}, checkpoint: checkpointBytes,
	}
}

// A systemRoot looks names up as the system does, starting at the machine's root or at the
// directory `path`. An [os.Root] would need permission to read each directory on the way, while the
// system requires only permission to search it.
type systemRoot struct{ path string }

func (r systemRoot) at(name string) string { return r.path + string(filepath.Separator) + name }

func (r systemRoot) Name() string { return r.at("") }
func (r systemRoot) Close() error { return nil }

func (r systemRoot) bare() directory { return r }

func (r systemRoot) directory(name string) (directory, error) {
	fi, err := r.Stat(name)
	if err == nil && !fi.IsDir() {
		err = fs.ErrNotExist
	}
	if err != nil {
		return nil, err
	}
	return systemRoot{r.at(name)}, nil
}

func (r systemRoot) OpenRoot(name string) (*os.Root, error)    { return os.OpenRoot(r.at(name)) }
func (r systemRoot) Stat(name string) (fs.FileInfo, error)     { return os.Stat(r.at(name)) }
func (r systemRoot) Lstat(name string) (fs.FileInfo, error)    { return os.Lstat(r.at(name)) }
func (r systemRoot) Readlink(name string) (string, error)      { return os.Readlink(r.at(name)) }
func (r systemRoot) Rename(from, to string) error              { return os.Rename(r.at(from), r.at(to)) }
func (r systemRoot) Link(from, to string) error                { return os.Link(r.at(from), r.at(to)) }
func (r systemRoot) Remove(name string) error                  { return os.Remove(r.at(name)) }
func (r systemRoot) Mkdir(name string, perm fs.FileMode) error { return os.Mkdir(r.at(name), perm) }
func (r systemRoot) Symlink(target, name string) error         { return os.Symlink(target, r.at(name)) }
func (r systemRoot) Chmod(name string, mode fs.FileMode) error { return os.Chmod(r.at(name), mode) }
func (r systemRoot) Chown(name string, uid, gid int) error     { return os.Chown(r.at(name), uid, gid) }
func (r systemRoot) Lchown(name string, uid, gid int) error    { return os.Lchown(r.at(name), uid, gid) }
func (r systemRoot) Chtimes(name string, a, m time.Time) error { return os.Chtimes(r.at(name), a, m) }

func (r systemRoot) OpenFile(name string, flag int, perm fs.FileMode) (*os.File, error) {
	return os.OpenFile(r.at(name), flag, perm)
}

// opens reports whether the store opens files with that mode: regular files and, in a Native store,
// devices.
func opens(mode fs.FileMode, native bool) bool {
	return mode.IsRegular() || native && mode&fs.ModeDevice != 0
}

// firstPerm returns the permission bits for creating a file whose final permission bits are perm.
// In a Native store it returns perm: the system applies the umask and the directory's access list
// to it. In other stores the bits are set later, and the file is first readable by its owner only.
func firstPerm(perm fs.FileMode, native bool) fs.FileMode {
	if native {
		return rules.FilePerm(perm)
	}
	return 0o600
}

// firstKey returns the first key to try for the temporary file's name. Nobody sweeps a Native
// store, so there the key depends only on the file's name: if the process is killed during an
// upload, the next upload of that file finds the old temporary file, and removes it.
func (u *dirUpload) firstKey() string {
	if u.store.Native {
		return tempname.Hash("haul part\x00" + u.base)
	}
	return tempname.Random()
}

func permOf(f *os.File) (fs.FileMode, error) {
	fi, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return fi.Mode().Perm(), nil
}

// openReplacing is like openTemp, but for a Native store. It fails with [store.ErrInPlace] if the
// new file could not replace the existing one, or would differ from it in more than the content:
// the user may not write to the file or to its directory, or the file has further names, another
// owner, an access list or other extended attributes.
func (u *dirUpload) openReplacing() error {
	if _, err := u.dir.Lstat(u.base); errors.Is(err, fs.ErrNotExist) {
		return u.openTemp(firstPerm(u.c.Perm, u.store.Native))
	}
	old, err := openRegular(u.dir, u.base, os.O_WRONLY)
	if err != nil {
		return store.ErrInPlace // opening the file to write it in place will return the same error
	}
	defer old.Close()
	fi, err := old.Stat()
	if err != nil {
		return err
	}
	// Create the temporary file with the old file's permissions, so that nobody who cannot read the
	// old content can read the new, even before Commit.
	if err := u.openTemp(fi.Mode().Perm()); errors.Is(err, fs.ErrPermission) {
		return store.ErrInPlace
	} else if err != nil {
		return err
	}
	fresh, err := u.file.Stat()
	if err != nil {
		return err
	}
	is, _ := store.DetailsOf(fi)
	would, ok := store.DetailsOf(fresh)
	if ok && (is.Links > 1 || is.UID != would.UID || is.GID != would.GID) || !sameExtras(old, u.file) {
		return store.ErrInPlace
	}
	return nil
}
