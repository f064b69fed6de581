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

// Machine returns the store of all files of this machine that the user of this process may access,
// for servers that run as the user whom they serve. A name is the absolute path without the leading
// slash. The store is Native, and sets special bits. Symbolic links lead where they lead for the
// user's other programs. If the directory of an upload is moved, the upload cannot be committed.
//
// On Windows the store has the files of one drive.
func Machine() *Dir {
	return &Dir{
		SpecialBits: true, Path: systemRoot{}.Name(), LinksFromRoot: true, Native: true,
		pathCalls: pathCalls{root: systemRoot{}}, checkpoint: checkpointBytes,
	}
}

// A systemRoot looks names up as the system does, from the root of the machine or from the
// directory at path. An [os.Root] would need permission to read each directory on the way, while
// the system only needs permission to search it.
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

// opens reports whether the store opens files of that mode.
func opens(mode fs.FileMode, native bool) bool {
	return mode.IsRegular() || native && mode&fs.ModeDevice != 0
}

// firstPerm returns the permission bits with which a file is created whose final bits are perm. In
// a Native store they are also the final bits: the system applies the umask and the directory's
// access list to them.
func firstPerm(perm fs.FileMode, native bool) fs.FileMode {
	if native {
		return rules.FilePerm(perm)
	}
	return 0o600
}

// firstKey returns the key of the temporary file's name, to be used if that name is free. Nobody
// sweeps a Native store, so its files always get the same key: if the process of an upload is
// killed, the next upload of that file finds and removes the old temporary file.
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

// openReplacing is openTemp for a Native store. It fails with [store.ErrInPlace] if the new file
// could not replace the existing one, or would differ from it in more than the content. This is so
// if the user may not write to the file, or not to its directory, or if the file has other names,
// another owner, an access list or other extended attributes.
func (u *dirUpload) openReplacing() error {
	if _, err := u.dir.Lstat(u.base); errors.Is(err, fs.ErrNotExist) {
		return u.openTemp(firstPerm(u.c.Perm, u.store.Native))
	}
	old, err := openRegular(u.dir, u.base, os.O_WRONLY)
	if err != nil {
		return store.ErrInPlace // writing in place will return the same error
	}
	defer old.Close()
	fi, err := old.Stat()
	if err != nil {
		return err
	}
	// Even before Commit, nobody may read more of the new content than of the old.
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
