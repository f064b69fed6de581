// Package privilege gives up what a running server needs no more: the rights
// of root, capabilities, and the file system outside the directories served.
// Nothing in the process can get it back.
//
// A server calls it between opening everything and the first request:
//
//	u, err := privilege.LookUp("haul:tftp")     // before anything is opened, to fail early
//	...                                         // bind sockets; open directories, logs, certificates
//	got, err := privilege.Confine(c)            // Landlock, while every path can still be reached
//	err = privilege.Drop(u)                     // root becomes u
//	err = privilege.DropCapabilities()          // or, started without root, what systemd or setcap gave
//
// Confine comes first, because the rules name directories by path, and u may
// lack the right to walk there; the other order works where u has it. Files and
// sockets that are open stay open through all of it, and so does whatever an
// [os.Root] opened before reaches below a directory that Confine was given.
//
// Everything here acts on the whole process, which in Go means all of its
// threads: a credential of Linux belongs to a thread.
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
)

// A User is whom the process shall become. The zero value is root, and refused.
type User struct {
	Name   string // as asked for, for messages
	UID    int    // 1 to 4,294,967,294
	GID    int    // 0 to 4,294,967,294
	Groups []int  // supplementary; none is empty
}

// Give makes a directory, and all in it that is root's, u's: root has made it, for the
// process that becomes u. Symbolic links are not followed, and a file with several names
// stays as it is. A file of another user is an error. A process that is not root gives
// nothing.
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
			return nil // removed meanwhile, by the process before this one
		}
		if err != nil {
			return err
		}
		uid, names, ok := ownerOf(info)
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

// A Confinement says what the process still needs of the file system, and of other
// machines. The zero value denies all of it.
//
// The paths are looked up once, by [Confine]: a file that is replaced later by
// another of its name is another file. So for a file that is read again when it
// changes, name its directory.
type Confinement struct {
	// Read names directories, below which files may be read and directories
	// listed, and single files that may be read.
	Read []string

	// Write names directories below which, besides, files and directories may
	// be made, written, linked, renamed and removed.
	Write []string

	// Trees names directories below which, besides that, symbolic links may be
	// made: for users who lay out trees of their own.
	Trees []string

	// Logs names directories in which files may be made, read and written, and no more: for
	// a log that begins a new file when another program has renamed the old one.
	Logs []string

	// Sockets names unix sockets of other processes that may be connected to. Kernels
	// before Linux 7.0 restrict none.
	Sockets []string

	// Connect are the TCP ports, of whatever host, that may be connected to.
	Connect []uint16
}
