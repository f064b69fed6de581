package privilege

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/landlock-lsm/go-landlock/landlock"
	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
)

const (
	readFile = landlock.AccessFSSet(ll.AccessFSReadFile)
	readDir  = landlock.AccessFSSet(ll.AccessFSReadFile | ll.AccessFSReadDir)

	// The accesses of the store and its callers below an upload directory. Running
	// a program, devices, sockets, pipes and symbolic links are not among them.
	writeDir = readDir | ll.AccessFSWriteFile | ll.AccessFSTruncate | ll.AccessFSMakeReg | ll.AccessFSRemoveFile |
		ll.AccessFSMakeDir | ll.AccessFSRemoveDir

	// The accesses in the directory of a log.
	writeLog = readFile | ll.AccessFSWriteFile | ll.AccessFSTruncate | ll.AccessFSMakeReg

	// The further accesses below a tree of a user's own.
	makeLink = landlock.AccessFSSet(ll.AccessFSMakeSym)

	// Moving and linking a file to another directory. The first ABI denies it
	// always, and a rule set that grants it can then not be had at all.
	moveDir    = landlock.AccessFSSet(ll.AccessFSRefer)
	moveABI    = 2
	networkABI = 4 // TCP
)

// restricted is what a confined process must have a rule for.
//
// UDP is left out, though ABI 10 knows it: a server answers any port of any
// peer. So are signals: haul sends none, the user it runs as limits them
// already, and some kernels (Landlock's erratum 2) take the threads of one
// process for strangers, while Go's runtime must be able to signal them.
var restricted = landlock.MustConfig(
	landlock.V9.HandledAccessFS,
	landlock.AccessNetSet(ll.AccessNetBindTCP|ll.AccessNetConnectTCP),
	landlock.ScopedSet(ll.ScopeAbstractUnixSocket),
).BestEffort()

// Confine takes the file system from all threads, but for what c names, by
// Landlock. Nothing may be run any more, no TCP port bound, and no TCP
// connection opened but to the ports that c names; sockets bound before continue
// to listen and accept. A connection to systemd, a resolver's or any other Unix
// socket that c does not name must be open already.
//
// It does as much as the kernel can, and says what that is: "Landlock ABI 7:
// files, TCP", or that it is not available, which is not an error. An error
// means that a path cannot be found, or that the kernel refused; nothing is
// restricted then. With [Confinement.Trees] the first ABI (Linux 5.13 to 5.18)
// counts as none, as it forbids moving a file to another directory.
//
// Multipath TCP is not covered (the kernel's limit, as of ABI 7), and neither
// are the calls that only look at names and attributes, such as stat and chmod.
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
	// Package time reads /etc/localtime when it is first asked for a local
	// time, and would find UTC later.
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

// tooOld reports whether the kernel's Landlock would break what is served.
func tooOld(c Confinement, abi int) bool { return abi < moveABI && len(c.Trees) > 0 }

// describe says what the kernel restricts.
func describe(abi int) string {
	if abi < networkABI {
		return fmt.Sprintf("Landlock ABI %d: files", abi)
	}
	return fmt.Sprintf("Landlock ABI %d: files, TCP", abi)
}

// rulesFor returns the rules that grant what c names.
func rulesFor(c Confinement, abi int) ([]landlock.Rule, error) {
	var rules []landlock.Rule
	for _, path := range c.Read {
		info, err := os.Stat(path)
		if err != nil {
			return nil, err // says "stat /srv/tftp: permission denied"
		}
		access := readFile
		if info.IsDir() {
			access = readDir
		}
		rules = append(rules, landlock.PathAccess(access, path))
	}
	access := writeDir
	if abi >= moveABI {
		access |= moveDir
	}
	for _, w := range []struct {
		paths  []string
		access landlock.AccessFSSet
	}{{c.Write, access}, {c.Trees, access | makeLink}, {c.Logs, writeLog}} {
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
