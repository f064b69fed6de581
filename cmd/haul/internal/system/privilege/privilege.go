// Package privilege gives up the rights that a running server no longer needs: the rights of root,
// capabilities, and access to the file system outside the served directories. Nothing in the
// process can restore them.
//
// A server calls it after opening everything and before the first request:
//
//	u, err := privilege.LookUp("haul:tftp")     // before anything is opened, to fail early
//	...                                         // bind sockets; open directories, logs, certificates
//	got, err := privilege.Confine(c)            // Landlock, while every path can still be reached
//	err = privilege.Drop(u)                     // root becomes u
//	err = privilege.DropCapabilities()          // if started without root: drops what systemd or setcap granted
//
// Confine comes first, because its rules name directories by path, and u may not be allowed to
// reach them. If u is allowed to, the other order works as well. Open files and sockets stay open.
// An [os.Root] that was opened before keeps its access below a directory that Confine was given.
//
// Everything here acts on the whole process, which in Go means all of its threads, because Linux
// keeps credentials per thread.
//
// Only Linux is supported. Elsewhere Hide does nothing, and every other function
// returns an error that wraps [errors.ErrUnsupported].
package privilege

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/haul-project/haul/internal/ownfile"
)

// A User is the user that the process should become. The zero value is root, which is refused.
type User struct {
	Name   string // the name as requested, for messages
	UID    int    // ID of the user, 1 to 4,294,967,294
	GID    int    // ID of the primary group, 0 to 4,294,967,294
	Groups []int  // IDs of the supplementary groups; may be empty
}

// Give makes u the owner of a directory, and of everything in it that belongs to root. It is for
// files that root has created for a process that becomes u. It does not follow symbolic links, and
// leaves files with several hard links unchanged. If a file belongs to another user, Give returns
// an error. If the process does not run as root, Give does nothing.
func Give(dir string, u User) error {
	if os.Geteuid() != 0 {
		return nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return fs.WalkDir(root.FS(), ".", func(name string, _ fs.DirEntry, err error) error {
		var info fs.FileInfo
		if err == nil {
			info, err = root.Lstat(name)
		}
		if errors.Is(err, fs.ErrNotExist) && name != "." {
			return nil // the predecessor has removed the file meanwhile
		}
		if err != nil {
			return err
		}
		uid, names, ok := ownfile.OwnerOf(info)
		switch {
		case !ok, uid == u.UID, uid == 0 && !info.IsDir() && names > 1:
			return nil
		case uid != 0:
			return fmt.Errorf("%s belongs to the user with the number %d, and haul is going to be %d: chown -R %d:%d %s, or name another directory",
				filepath.Join(dir, name), uid, u.UID, u.UID, u.GID, dir)
		}
		return root.Lchown(name, u.UID, u.GID)
	})
}

// A Confinement lists the parts of the file system, and the ports of other machines, that the
// process still needs. The zero value denies everything.
//
// [Confine] looks the paths up once, and its rules apply to the files that it finds. If a file is
// later replaced by another one with the same name, there is no rule for the new file. So for a
// file that is read again when it changes, name its directory.
type Confinement struct {
	// Read names files and directories that may be read. Below the directories, files may be read
	// and directories may be listed.
	Read []string

	// Write names directories below which files and directories may also be created, written,
	// linked, renamed and removed.
	Write []string

	// Trees names directories for which the rights of Write apply and below which symbolic links
	// may be created too. They are for users who arrange their own trees.
	Trees []string

	// Logs names log files. In their directories, files may be created and written, but not read or
	// removed. So a log can begin a new file after another program has renamed the old one.
	Logs []string

	// Sockets names unix sockets of other processes that this process may connect to. Kernels
	// before Linux 7.0 do not restrict these.
	Sockets []string

	// Connect lists the TCP ports that this process may connect to, on any host.
	Connect []uint16
}
