//go:build !windows

package openssh

import (
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

const systemDir = "/etc/ssh"

// nonblock is a flag for opening a file. With it, opening a pipe that has no writer does not block.
const nonblock = syscall.O_NONBLOCK

func localName(name string) string { return name }

// shell returns the path of the shell that runs the commands in the configuration.
func (sys *system) shell() (string, error) {
	if s, ok := sys.env("SHELL"); ok && s != "" {
		return s, nil
	}
	return "/bin/sh", nil
}

// checkConfigOwner returns an error if others can write to a configuration file, because they could
// add commands that haul would run.
func (sys *system) checkConfigOwner(info fs.FileInfo) error {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	own := strconv.Itoa(os.Getuid())
	if sys.account != nil {
		own = sys.account.Uid
	}
	if st.Uid != 0 && strconv.FormatUint(uint64(st.Uid), 10) != own {
		return fmt.Errorf("it belongs to user %d, and must belong to you or to root", st.Uid)
	}
	if bad := info.Mode().Perm() & 0o022; bad&0o002 != 0 || bad != 0 && !sys.isOwnGroup(st.Gid) {
		return fmt.Errorf("others may write to it (mode %04o): chmod go-w", info.Mode().Perm())
	}
	return nil
}

// isOwnGroup reports whether a group is the user's private group, so that its write permission does
// no harm. On some systems every user has a private group of the same name, and ~/.ssh/config is
// often group-writable.
func (sys *system) isOwnGroup(gid uint32) bool {
	u := sys.account
	if u == nil || u.Gid != strconv.FormatUint(uint64(gid), 10) || gid == 0 {
		return false
	}
	g, err := user.LookupGroupId(u.Gid)
	return err == nil && g.Name == u.Username
}

// checkKeyOwner returns an error if the user that runs haul owns a private key, and others may read
// it.
func checkKeyOwner(info fs.FileInfo) error {
	st, ok := info.Sys().(*syscall.Stat_t)
	if ok && int(st.Uid) == os.Getuid() && info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("others may use it (mode %04o), so it is not used: chmod 600", info.Mode().Perm())
	}
	return nil
}
