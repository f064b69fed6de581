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

// A system holds everything that a configuration depends on, apart from its files: the user, the
// environment, and so on. Tests replace it.
type system struct {
	account  *user.User // the user whose files are read; nil if unknown
	home     string
	user     string
	uid      string
	hostname string

	userConfig   string // path of ~/.ssh/config
	systemConfig string // path of the system's configuration, such as /etc/ssh/ssh_config
	systemDir    string // directory that relative includes of systemConfig refer to

	env    func(string) (string, bool)
	lookup func(r *reader, host string) bool // reports whether a name has addresses
	locals func() []netip.Addr
}

// thisSystem returns the system for an account; nil means the user that runs this program. As in
// ssh, the home directory comes from the user database and not from HOME.
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

// exists reports whether a file exists. It also returns true if the system does not say, because
// readFile, which callers call next, then returns the error.
func exists(name string) bool {
	_, err := os.Stat(name)
	return !errors.Is(err, fs.ErrNotExist)
}
