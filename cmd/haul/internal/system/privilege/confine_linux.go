package privilege

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/landlock-lsm/go-landlock/landlock"
	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
)

const (
	readFile = landlock.AccessFSSet(ll.AccessFSReadFile)
	readDir  = landlock.AccessFSSet(ll.AccessFSReadFile | ll.AccessFSReadDir)

	// writeDir holds the accesses that the store and its callers need below an upload directory. It
	// does not allow running programs, nor creating devices, sockets, pipes and symbolic links.
	writeDir = readDir | ll.AccessFSWriteFile | ll.AccessFSTruncate | ll.AccessFSMakeReg | ll.AccessFSRemoveFile |
		ll.AccessFSMakeDir | ll.AccessFSRemoveDir

	// writeLog holds the accesses that are needed in the directory of a log. A Landlock rule is for
	// a file that exists or for everything below a directory, never for a name. So a process that
	// is to write a file that does not exist yet needs the right to write all files of the
	// directory. [Beside] lists the others.
	writeLog = landlock.AccessFSSet(ll.AccessFSWriteFile | ll.AccessFSTruncate | ll.AccessFSMakeReg)

	// makeLink holds the accesses that are needed below a user's own tree, in addition to writeDir.
	makeLink = landlock.AccessFSSet(ll.AccessFSMakeSym)

	// moveDir allows moving or linking a file to another directory. The first ABI always denies
	// that, and has no rule that could allow it.
	moveDir    = landlock.AccessFSSet(ll.AccessFSRefer)
	moveABI    = 2
	networkABI = 4 // the first ABI that restricts TCP
)

// restricted lists the accesses that a confined process may make only if a rule allows them.
//
// UDP is left out, although ABI 10 supports it, because a server answers any port of any peer.
// Signals are left out too. haul does not send signals, and its user already limits them. Also,
// some kernels (Landlock's erratum 2) treat the threads of one process as different processes,
// while Go's runtime must be able to signal them.
var restricted = landlock.MustConfig(
	landlock.V9.HandledAccessFS,
	landlock.AccessNetSet(ll.AccessNetBindTCP|ll.AccessNetConnectTCP),
	landlock.ScopedSet(ll.ScopeAbstractUnixSocket),
).BestEffort()

// Confine uses Landlock to remove access to the file system from all threads, except to the paths
// in c. After that, no program can be run, no TCP port bound, and no TCP connection opened except
// to the ports in c. Sockets that were bound before continue to listen and accept. Connections to
// systemd, to a resolver or to any other Unix socket that c does not name have to be open already.
//
// Confine restricts as much as the kernel supports, and returns a description: "Landlock ABI 7:
// files, TCP", or that Landlock is not available, which is not an error. If a path cannot be found
// or the kernel refuses, it returns an error, and nothing is restricted. With [Confinement.Trees]
// the first ABI (Linux 5.13 to 5.18) counts as not available, because it forbids moving a file to
// another directory.
//
// Confine covers neither Multipath TCP nor TCP Fast Open (limits of the kernel, as of ABI 7), nor
// calls that only access names and attributes, such as stat and chmod.
func Confine(c Confinement) (what string, err error) {
	abi, err := ll.LandlockGetABIVersion()
	switch {
	case errors.Is(err, syscall.ENOSYS):
		return "Landlock not available: the kernel has none (5.13 and later may), or a system call filter hides it", nil
	case errors.Is(err, syscall.EOPNOTSUPP):
		return "Landlock not available: switched off when the kernel was started (lsm=)", nil
	case err != nil:
		return "Landlock not available: " + err.Error(), nil
	case tooOld(c, abi):
		return fmt.Sprintf("Landlock not available: its ABI %d forbids to move files to other directories (that of Linux 5.19 does not)", abi), nil
	}
	// Make package time read /etc/localtime now. Otherwise it would read the file when a local time
	// is first needed. After the confinement it could not read the file any more, and would use
	// UTC.
	_, _ = time.Now().Zone()
	rules, err := rulesFor(c, abi)
	if err != nil {
		return "", fmt.Errorf("confine the process: %w", err)
	}
	if err := restricted.Restrict(rules...); err != nil {
		return "", fmt.Errorf("confine the process by Landlock ABI %d: %w", abi, err)
	}
	return describe(abi), nil
}

// tooOld reports whether confinement by the kernel's version of Landlock would break the service.
func tooOld(c Confinement, abi int) bool { return abi < moveABI && len(c.Trees) > 0 }

// describe returns a text that says what a kernel with this ABI restricts.
func describe(abi int) string {
	if abi < networkABI {
		return fmt.Sprintf("Landlock ABI %d: files", abi)
	}
	return fmt.Sprintf("Landlock ABI %d: files, TCP", abi)
}

// rulesFor returns the rules that allow access to everything in c.
func rulesFor(c Confinement, abi int) ([]landlock.Rule, error) {
	var rules []landlock.Rule
	for _, path := range c.Read {
		info, err := os.Stat(path)
		if err != nil {
			return nil, err // for example "stat /srv/tftp: permission denied"
		}
		access := readFile
		if info.IsDir() {
			access = readDir
		}
		rules = append(rules, landlock.PathAccess(access, path))
	}
	var logs []string
	for _, file := range c.Logs {
		logs = append(logs, filepath.Dir(file))
	}
	access := writeDir
	if abi >= moveABI {
		access |= moveDir
	}
	for _, w := range []struct {
		paths  []string
		access landlock.AccessFSSet
	}{{c.Write, access}, {c.Trees, access | makeLink}, {logs, writeLog}} {
		for _, path := range w.paths {
			info, err := os.Stat(path)
			if err != nil {
				return nil, err
			}
			if !info.IsDir() {
				return nil, fmt.Errorf("%s: not a directory; only whole directories can be made writable", path)
			}
			rules = append(rules, landlock.PathAccess(w.access, path))
		}
	}
	for _, path := range c.Sockets {
		if _, err := os.Stat(path); err != nil {
			return nil, err
		}
		rules = append(rules, landlock.PathAccess(ll.AccessFSResolveUnix, path))
	}
	for _, port := range c.Connect {
		rules = append(rules, landlock.ConnectTCP(port))
	}
	return rules, nil
}
