// Package localdir is the store of the files in a directory of this machine.
//
//	root, err := os.OpenRoot("/srv/files")
//	if err != nil {
//		return err
//	}
//	defer root.Close()
//	files := localdir.New(root)
//
// It is a [store.Tree], with the errors that package store describes.
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
	// checkpointBytes is how much a resumable upload may lose: after as much
	// the disk is waited for, and the mark moves.
	checkpointBytes = 16 << 20

	// keepFor is how long a sweep leaves alone what can be resumed.
	keepFor = 7 * 24 * time.Hour

	maxSweepDepth = 64  // directories below each other; each holds a descriptor
	dirBatch      = 256 // directory entries read at once, and in memory per level of a sweep
)

var _ store.Store = (*Dir)(nil)

// A Dir is a [store.Tree] in a directory. See [New].
type Dir struct {
	// SpecialBits lets SetAttr set and clear the setuid, setgid and sticky
	// bits. Without it those of directories stay as they are, and files lose
	// theirs. Set it before the store is used.
	SpecialBits bool

	// Path is where the directory is. Set it before the store is used if
	// [store.LocationOf] is to return where its files are.
	Path string

	// NoSync gives every upload [store.Create].NoSync: none waits for the disk, except
	// at the checkpoints of uploads that can be resumed, and the machine's end may cost
	// what it has just published. Set it before the store is used.
	NoSync bool

	// LinksFromRoot follows absolute symbolic links from the store's root, as in a
	// chroot: right for what is served to others as "/". Without it they lead
	// outside. At most 40 links are followed to find what a name means. Set it
	// before the store is used.
	LinksFromRoot bool

	// Small, if set, has small files share what is open: see [SmallFiles]. Open then
	// returns files without Seek and SyscallConn. Set it before the store is used.
	Small *SmallFiles

	// Kept, if set, has published uploads describe themselves, and stay open: see
	// [KeptUploads]. Set it before the store is used.
	Kept *KeptUploads

	// Native is for files of the user that this process runs as. It leaves to the system
	// what that decides for the user's programs. New files and directories get the
	// permissions that the umask and the access list of their directory leave of those
	// asked for. OpenFile opens devices too. And Create fails with [store.ErrInPlace] where
	// a new file would differ from the present one in more than the content. Set it before
	// the store is used.
	Native bool

	pathCalls        // in the directory
	checkpoint int64 // checkpointBytes, but in tests
	makers     makers
}

// New returns the store of the files under root. The caller closes root, when done
// with the store. For a user who may see one directory of a
// larger tree, open that with [os.Root.OpenRoot]: then no link in it leads to
// another's.
//
// No name and no symbolic link leads out of root; one that tries to is an
// [fs.ErrPermission]. Links that stay inside are followed; absolute ones count
// as leading out, unless LinksFromRoot says otherwise. An upload to a link replaces
// the file it refers to.
//
// An upload is a hidden file beside its target, readable by its owner alone,
// until it is committed. Such files cannot be opened or created by name. A
// process that dies leaves them behind: see [Dir.Sweep]. With
// [store.Create].Resume it leaves what the next upload resumes from.
//
// Zeros in an upload become holes in the file, where the file system has such
// a thing: see [Dir.Create].
//
// Replacing a file takes permission to write to its directory, not to the
// file, and the new file belongs to this process's user.
//
// On Linux the files are [store.TryReader]s. Everywhere they have the methods of an
// *os.File, such as Seek and SyscallConn, so that net/http can use sendfile.
func New(root *os.Root) *Dir {
	d := &Dir{checkpoint: checkpointBytes}
	d.root = dirRoot{root, d}
	// The os package does not export this error, but will always give it.
	_, err := root.Lstat("..")
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		d.escape = pe.Err
	}
	return d
}

// makers are the uploads under way that may make directories. If one fails while
// another has its name in a directory that the first has made, the other has to remove
// that directory if it fails too. So none has its directory taken away, but by other
// processes.
type makers struct {
	mu  sync.Mutex
	all map[*dirUpload]bool // mu, and made of each
}

// location returns the path of a name.
func (d *Dir) location(name string) store.Location {
	if d.Path == "" {
		return store.Location{}
	}
	return store.Location{Path: filepath.Join(d.Path, filepath.FromSlash(name))}
}

// A dirUpload is a hidden file beside its target. Open, it holds two
// descriptors: the file's and its directory's.
type dirUpload struct {
	store *Dir
	name  string    // the caller's, for errors
	dir   directory // the target's directory, even if that is moved; of a systemRoot by its path
	base  string    // the target's name there
	temp  string    // the hidden file's name there; "" once it is renamed
	file  *os.File  // the hidden file, locked against sweeps
	c     store.Create
	after func()   // called when the hidden file is gone, or named
	made  []string // directories to be removed if nothing comes of it, from the root of the store; see makers

	writing sync.RWMutex // held to write, and alone to extend the file; taken before mu

	mu    sync.Mutex
	end   int64      // mu: the size to commit; what a failed write has left may reach further
	data  int64      // mu: from here on nothing but zeros was ever written: see sparse.go
	dirty int64      // mu: bytes written since the disk was last set going
	attr  store.Attr // mu: mode and times to have by Commit
	done  bool       // mu: committed or closed
}

func (u *dirUpload) call(name string, f func() error) error { return u.store.call(name, f) }
func (u *dirUpload) fail(op string, err error) error        { return u.store.fail(op, u.name, err) }
