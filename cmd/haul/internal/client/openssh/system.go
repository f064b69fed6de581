package openssh

import (
	"errors"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
)

// A system is what a configuration depends on besides its files. Tests have
// their own.
type system struct {
	account  *user.User // whose files are read; nil where that is not known
	home     string
	user     string
	uid      string
	hostname string

	userConfig   string // ~/.ssh/config
	systemConfig string // /etc/ssh/ssh_config
	systemDir    string // where its includes are

	env    func(string) (string, bool)
	lookup func(r *reader, host string) bool // whether a name has addresses
	locals func() []netip.Addr
}

// thisSystem describes the system and an account; nil is the user that runs this program.
// The home directory is that of the user database, as for ssh.
func thisSystem(account *user.User) *system {
	sys := &system{
		account:      account,
		uid:          strconv.Itoa(os.Getuid()),
		systemDir:    systemDir,
		systemConfig: filepath.Join(systemDir, "ssh_config"),
		env:          os.LookupEnv,
		lookup:       lookupHost,
		locals:       localAddresses,
	}
	if account == nil {
		sys.account, _ = user.Current()
	} else {
		sys.uid = account.Uid
	}
	if u := sys.account; u != nil {
		sys.home, sys.user = u.HomeDir, localName(u.Username)
	}
	if sys.home == "" {
		sys.home, _ = os.UserHomeDir()
	}
	sys.userConfig = filepath.Join(sys.home, ".ssh", "config")
	sys.hostname, _ = os.Hostname()
	return sys
}

func lookupHost(r *reader, host string) bool {
	addrs, err := net.DefaultResolver.LookupHost(r.ctx, host)
	return err == nil && len(addrs) > 0
}

func localAddresses() (addrs []netip.Addr) {
	nets, err := net.InterfaceAddrs()
	if err != nil {
		return nil
	}
	for _, n := range nets {
		if p, err := netip.ParsePrefix(n.String()); err == nil {
			addrs = append(addrs, p.Addr())
		}
	}
	return addrs
}

// exists reports whether there is such a file. One that cannot be looked at
// is for readFile to report.
func exists(name string) bool {
	_, err := os.Stat(name)
	return !errors.Is(err, fs.ErrNotExist)
}
