// Package localdir provides a [store.Tree] that keeps its files in a directory of this machine.
//
//	root, err := os.OpenRoot("/srv/files")
//	if err != nil {
//		return err
//	}
//	defer root.Close()
//	files := localdir.New(root)
//
// Its errors are those that package store documents. The package example shows that no name and no
// link leads out of the directory.
//
// # Stability
//
// Before version 1, a release may change names of this package, and the changelog says so.
// Later versions resume or remove the temporary files that uploads of this version leave behind.
// The page https://github.com/haul-project/haul/blob/main/docs/versions.md has the whole promise.
package localdir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/haul-project/haul/store"
)

const (
	// checkpointBytes is the number of bytes after which a resumable upload waits for the disk and
	// advances the checkpoint. If the process or the machine crashes, no more than that is lost.
	checkpointBytes = 16 << 20

	// keepFor is how long a sweep keeps the temporary file of an upload that can be resumed.
	keepFor = 7 * 24 * time.Hour

	maxSweepDepth = 64  // the deepest level of directories that a sweep visits; each level needs an open descriptor
	dirBatch      = 256 // directory entries that are read at once, and held in memory for each level of a sweep
)

var _ store.Store = (*Dir)(nil)

// A Dir is a [store.Tree] in a directory. See [New].
type Dir struct {
	// SpecialBits lets SetAttr set and clear the setuid, setgid and sticky bits. Without it,
	// directories keep these bits, and files lose them. Set it before the store is used.
	SpecialBits bool

	// Path is the path of the directory. [store.LocationOf] returns the paths of files only if it
	// is set. Set it before the store is used.
	Path string

	// NoSync sets [store.Create].NoSync for every upload. Then uploads do not wait for the disk,
	// except at the checkpoints of resumable uploads. If the machine crashes, files that were
	// published just before may be lost. Set it before the store is used.
	NoSync bool

	// LinksFromRoot makes absolute symbolic links start at the store's root, as in a chroot. Use it
	// for files that are served to others as "/". Without it, absolute links count as leading
	// outside, and are not followed. At most 40 links are followed in one name. Set it before the
	// store is used.
	LinksFromRoot bool

	// Small, if set, lets readers of small files share open files: see [SmallFiles]. The files that
	// Open returns then lack Seek and SyscallConn. Set it before the store is used.
	Small *SmallFiles

	// Kept, if set, makes Commit describe each published file, and keep it open: see [KeptUploads].
	// Set it before the store is used.
	Kept *KeptUploads

	// Native is for serving the files of the user that this process runs as. The store then leaves
	// decisions to the system, as the user's other programs do. New files and directories get the
	// requested permissions, restricted by the umask and by the access list of their directory.
	// OpenFile also opens devices. Create fails with [store.ErrInPlace] if a new file would differ
	// from the existing one in more than the content. Set it before the store is used.
	Native bool

	pathCalls        // operations on names in the directory
	checkpoint int64 // bytes after which a checkpoint is stored: checkpointBytes, or less in tests
	makers     makers
}

// New returns the store of the files under root. The caller closes root when it no longer uses the
// store. To give a user only one directory of a larger tree, open that directory with
// [os.Root.OpenRoot], so that no link in it leads to another user's directory.
//
// No name and no symbolic link leads out of root: trying returns [fs.ErrPermission]. Links that
// stay inside are followed. Absolute links count as leading out, unless LinksFromRoot is set. An
// upload whose name is a link replaces the target of the link.
//
// Until it is committed, an upload is a temporary file in the directory of its target. Only the
// owner can read it, and clients cannot open or create such files by name. If the process dies, its
// temporary files stay: see [Dir.Sweep]. With [store.Create].Resume, the next upload continues from
// them.
//
// Zeros in an upload become holes in the file, if the file system supports holes: see [Dir.Create].
//
// Replacing a file requires permission to write to its directory, not to the file. The new file
// belongs to this process's user.
//
// On Linux, the files that Open returns are [store.TryReader]s. On every system they have the
// methods of an *os.File, such as Seek and SyscallConn, so that net/http can use sendfile.
func New(root *os.Root) *Dir {
	d := &Dir{checkpoint: checkpointBytes}
	d.root = dirRoot{root, d}
	// The os package does not export the error for leaving the root, but Lstat always returns it
	// for "..".
	_, err := root.Lstat("..")
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		d.escape = pe.Err
	}
	return d
}

// makers holds the uploads in progress that may make directories. If an upload fails, it removes
// the directories that it made. If another upload needs one of them, that upload becomes
// responsible for removing it instead. So no upload loses its directory, unless another process
// removes it.
type makers struct {
	mu  sync.Mutex
	all map[*dirUpload]bool // the uploads in progress; guarded by mu, like the field `made` of each upload
}

// location returns the path on the disk that belongs to a name.
func (d *Dir) location(name string) store.Location {
	if d.Path == "" {
		return store.Location{}
	}
	return store.Location{Path: filepath.Join(d.Path, filepath.FromSlash(name))}
}

// A dirUpload is an upload whose data is in a temporary file in the target's directory. While open,
// it holds two descriptors: one of the file and one of the directory.
type dirUpload struct {
	store *Dir
	name  string // the name given to Create, for errors
	// dir is the open directory of the target. It stays valid if the directory is renamed, except in
	// Machine, where a systemRoot looks up the directory by its path each time.
	dir   directory
	base  string   // the target's name in dir
	temp  string   // the temporary file's name in dir; "" once it has been renamed to base
	file  *os.File // the temporary file; its lock prevents a sweep from removing it
	c     store.Create
	after func()   // if set, called when the temporary file has been removed or renamed
	made  []string // names of the directories to remove if the upload fails; see makers

	// writing is read-locked while data is written, and locked while the file is extended. It is
	// taken before mu.
	writing sync.RWMutex

	mu sync.Mutex
	// end is the size that Commit gives the file; guarded by mu. A failed write may have left data
	// beyond it.
	end   int64
	data  int64      // only zeros were written at or after this offset: see writeSparse; guarded by mu
	dirty int64      // bytes written since writeback was last started; guarded by mu
	attr  store.Attr // mode and times for Commit to set; guarded by mu
	done  bool       // the upload was committed or closed; guarded by mu
}

func (u *dirUpload) call(name string, f func() error) error { return u.store.call(name, f) }
func (u *dirUpload) fail(op string, err error) error        { return u.store.fail(op, u.name, err) }
