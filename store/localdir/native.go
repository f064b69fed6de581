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

// Machine returns the store of all files of this machine that the user of this process has
// a right to, for servers that run as the user whom they serve. A name is the absolute path
// without the slash in front. The store is Native, and sets special bits. Symbolic links
// lead where they lead the user's other programs. If the directory of an upload is moved,
// the upload cannot be committed.
//
// On Windows it has the files of one drive.
func Machine() *Dir {
	return &Dir{
		SpecialBits: true, Path: systemRoot{}.Name(), LinksFromRoot: true, Native: true,
		pathCalls: pathCalls{root: systemRoot{}}, checkpoint: checkpointBytes,
	}
}

// A systemRoot looks names up as the system does: from the root of the machine, or from the
// directory whose path it has. An [os.Root] would need the right to read each directory on
// the way, while the system asks for the right to search it.
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

// opens reports whether a file of that mode is opened.
func opens(mode fs.FileMode, native bool) bool {
	return mode.IsRegular() || native && mode&fs.ModeDevice != 0
}

// firstPerm returns the permission bits with which a file is created that is to have perm.
// Those of a Native store are the last, too: the system takes from them what the umask and
// the directory's access list say.
func firstPerm(perm fs.FileMode, native bool) fs.FileMode {
	if native {
		return rules.FilePerm(perm)
	}
	return 0o600
}

// firstKey returns the key of the name that the hidden file gets if that is free. Nobody sweeps
// a Native store, so that of a file is always the same: if the process of an upload is killed,
// the next of that file finds and removes what it left.
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

// openReplacing is openTemp of a Native store. It fails with [store.ErrInPlace] if the new
// file could not take the place of the one that is there, or would not be the same but for
// its content: if the user may not write to the file, or not to its directory, or if the
// file has other names, another owner, an access list or other extended attributes.
func (u *dirUpload) openReplacing() error {
	if _, err := u.dir.Lstat(u.base); errors.Is(err, fs.ErrNotExist) {
		return u.openTemp(firstPerm(u.c.Perm, u.store.Native))
	}
	old, err := openRegular(u.dir, u.base, os.O_WRONLY)
	if err != nil {
		return store.ErrInPlace // where the same error comes
	}
	defer old.Close()
	fi, err := old.Stat()
	if err != nil {
		return err
	}
	// Nobody may read more of the new content than of the old, before Commit either.
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
