// Package localdir keeps the files of a [store.Tree] in a directory of this machine.
//
//	root, err := os.OpenRoot("/srv/files")
//	if err != nil {
//		return err
//	}
//	defer root.Close()
//	files := localdir.New(root)
//
// It is a [store.Tree], with the errors that package store describes. The example of the package
// shows that no name and no link leads out of the directory.
//
// # Stability
//
// Before version 1, a release may change names of this package, and the changelog says so.
// Later versions continue or remove the temporary files of uploads that this one leaves.
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
	// checkpointBytes is the most data that a resumable upload may lose: after each such amount, it
	// waits for the disk and advances the checkpoint.
	checkpointBytes = 16 << 20

	// keepFor is how long a sweep keeps an upload that can be resumed.
	keepFor = 7 * 24 * time.Hour

	maxSweepDepth = 64  // levels of directories; each holds a descriptor
	dirBatch      = 256 // directory entries read at once, and in memory per level of a sweep
)

var _ store.Store = (*Dir)(nil)

// A Dir is a [store.Tree] in a directory. See [New].
type Dir struct {
	// SpecialBits lets SetAttr set and clear the setuid, setgid and sticky bits. Without it,
	// directories keep theirs, and files lose theirs. Set it before the store is used.
	SpecialBits bool

	// Path is the path of the directory. Set it before the store is used if [store.LocationOf] is
	// to return paths of files.
	Path string

	// NoSync sets [store.Create].NoSync for every upload. Uploads then do not wait for the disk,
	// except at the checkpoints of uploads that can be resumed. If the machine goes down, it may
	// lose files that it has just published. Set it before the store is used.
	NoSync bool

	// LinksFromRoot makes absolute symbolic links start at the store's root, as in a chroot. This
	// is right for files that are served to others as "/". Without it, such links lead outside. At
	// most 40 links are followed in one name. Set it before the store is used.
	LinksFromRoot bool

	// Small, if set, lets readers of small files share open files: see [SmallFiles]. Open then
	// returns files without Seek and SyscallConn. Set it before the store is used.
	Small *SmallFiles

	// Kept, if set, makes published uploads describe themselves, and stay open: see [KeptUploads].
	// Set it before the store is used.
	Kept *KeptUploads

	// Native is for files of the user that this process runs as. It leaves to the system the
	// decisions that the system makes for the user's programs. New files and directories get the
	// requested permissions as far as the umask and the access list of their directory allow.
	// OpenFile also opens devices. Create fails with [store.ErrInPlace] if a new file would differ
	// from the existing one in more than the content. Set it before the store is used.
	Native bool

	pathCalls        // in the directory
	checkpoint int64 // checkpointBytes, except in tests
	makers     makers
}

// New returns the store of the files under root. The caller closes root, when done with the store.
// For a user who may see one directory of a larger tree, open that directory with
// [os.Root.OpenRoot], so that no link in it leads to the directory of another user.
//
// No name and no symbolic link leads out of root; one that tries is an [fs.ErrPermission]. Links
// that stay inside are followed. Absolute links count as leading out, unless LinksFromRoot is set.
// An upload to a link replaces the target of the link.
//
// Until it is committed, an upload is a temporary file beside its target that only the owner can
// read. Such files cannot be opened or created by name. A process that dies leaves them behind: see
// [Dir.Sweep]. With [store.Create].Resume, the next upload resumes from them.
//
// Zeros in an upload become holes in the file, where the file system supports holes: see
// [Dir.Create].
//
// Replacing a file requires permission to write to its directory, not to the file. The new file
// belongs to this process's user.
//
// On Linux the files are [store.TryReader]s. On every system they have the methods of an *os.File,
// such as Seek and SyscallConn, so that net/http can use sendfile.
func New(root *os.Root) *Dir {
	d := &Dir{checkpoint: checkpointBytes}
	d.root = dirRoot{root, d}
	// The os package does not export this error, but Lstat always returns it for "..".
	_, err := root.Lstat("..")
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		d.escape = pe.Err
	}
	return d
}

// makers holds the uploads under way that may make directories. An upload that fails removes the
// directories that it made. If another upload needs one of them, that upload becomes responsible
// for removing it instead. So no upload loses its directory, unless another process removes it.
type makers struct {
	mu  sync.Mutex
	all map[*dirUpload]bool // guarded by mu, as is made of each
}

// location returns the path of a name.
func (d *Dir) location(name string) store.Location {
	if d.Path == "" {
		return store.Location{}
	}
	return store.Location{Path: filepath.Join(d.Path, filepath.FromSlash(name))}
}

// A dirUpload is a temporary file beside its target. While open, it holds two descriptors: of the
// file and of its directory.
type dirUpload struct {
	store *Dir
	name  string    // the caller's, for errors
	dir   directory // the target's directory, even if it is moved; for a systemRoot, found by its path
	base  string    // the target's name there
	temp  string    // name of the temporary file in dir; "" once it is renamed
	file  *os.File  // the temporary file, locked against sweeps
	c     store.Create
	after func()   // called when the temporary file has been removed or renamed
	made  []string // directories to remove if the upload fails, as names in the store; see makers

	writing sync.RWMutex // read-locked for writing data, locked for extending the file; taken before mu

	mu    sync.Mutex
	end   int64      // guarded by mu: the size to commit; a failed write may have left data beyond it
	data  int64      // guarded by mu: from here on, nothing but zeros was written: see sparse.go
	dirty int64      // guarded by mu: bytes written since writeback was last started
	attr  store.Attr // guarded by mu: mode and times for Commit to set
	done  bool       // guarded by mu: committed or closed
}

func (u *dirUpload) call(name string, f func() error) error { return u.store.call(name, f) }
func (u *dirUpload) fail(op string, err error) error        { return u.store.fail(op, u.name, err) }
