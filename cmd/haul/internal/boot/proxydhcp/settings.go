package proxydhcp

import (
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/boot/dhcp"
	"github.com/haul-project/haul/cmd/haul/internal/boot/dhcpadvice"
	"github.com/haul-project/haul/cmd/haul/internal/boot/pxe"
	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
)

// Settings holds the settings of a [Service]. They do not concern the DHCP server of the network:
// see package pxe.
type Settings struct {
	Answer bool // answer boot clients, on UDP ports 67 and 4011

	// With DryRun the service decides and logs as usual, but sends nothing and serves no files.
	DryRun bool

	// Advise is the name of a kind of DHCP server, one of [dhcpadvice.Servers]. If it is set, the
	// service writes configuration lines for such a server instead of answering clients: see
	// [Service.Advise]. It requires DryRun.
	Advise string

	Interfaces []string // interfaces on which clients are answered; empty means all but loopback
	// Address is the address at which clients reach this machine. The zero address means the
	// address of the interface on which a request arrived.
	Address netip.Addr
	Relays  []netip.Prefix // IPv4 networks of relay agents, and of the clients behind them

	Files     map[pxe.Arch]string // boot files to offer instead of the files that are found
	Hosts     map[dhcp.MAC]pxe.Host
	KnownOnly bool // answer only the machines in Hosts

	// Default is the name of the menu entry that boots after Timeout, if nobody chooses another
	// one. An entry has the name of its file without .conf, or of its directory. "" means the
	// machine's own disk. With a Timeout of 0, the menu waits forever.
	Default string
	Timeout time.Duration

	// LoaderDir is a directory with boot files, which are used if the served directories lack them.
	// "" means that there is no such directory.
	LoaderDir string
}

// DefaultLoaderDir is the directory of Debian's package ipxe.
const DefaultLoaderDir = "/usr/lib/ipxe"

// DefaultSettings returns the default settings. With these, no client is answered.
func DefaultSettings() Settings {
	return Settings{LoaderDir: DefaultLoaderDir, Timeout: 10 * time.Second}
}

// LoaderDirs returns the directories, in addition to the served ones, that are searched for boot
// files: the subdirectory ipxe of dir, and LoaderDir. It leaves out a directory that does not
// exist, unless the user has named it.
func (s *Settings) LoaderDirs(dir string) (all []string) {
	for _, one := range []string{filepath.Join(dir, "ipxe"), s.LoaderDir} {
		info, err := os.Stat(one)
		named := one == s.LoaderDir && one != DefaultLoaderDir
		if one != "" && (named || err == nil && info.IsDir()) {
			all = append(all, one)
		}
	}
	return all
}

// Check calls `when` once for each rule that the settings must obey. wrong says that the settings
// break the rule; setting is the flag that is at fault; format and args are the message.
// servesFiles says that clients can fetch files by TFTP or HTTP. Check does not open anything.
func (s *Settings) Check(servesFiles bool, when func(wrong bool, setting failure.Flag, format string, args ...any)) {
	if !s.Answer {
		when(s.DryRun, "boot", "%s and %s of haul boot go with %s", failure.Flag("dry-run"), failure.Flag("advise"), failure.Flag("boot"))
		when(len(s.Interfaces) > 0, "interface", "%s is for boot clients; add %s", failure.Flag("interface"), failure.Flag("boot"))
		when(len(s.Files) > 0, "boot-file", "%s goes with %s", failure.Flag("boot-file"), failure.Flag("boot"))
		when(len(s.Hosts) > 0, "boot-host", "%s goes with %s", failure.Flag("boot-host"), failure.Flag("boot"))
		when(s.KnownOnly, "boot-known", "%s goes with %s", failure.Flag("boot-known"), failure.Flag("boot"))
		when(s.Address.IsValid(), "boot-address", "%s goes with %s", failure.Flag("boot-address"), failure.Flag("boot"))
		when(len(s.Relays) > 0, "boot-relay", "%s goes with %s", failure.Flag("boot-relay"), failure.Flag("boot"))
		when(s.Default != "", "boot-default", "%s goes with %s", failure.Flag("boot-default"), failure.Flag("boot"))
		return
	}
	when(!servesFiles && !s.DryRun, "boot", "%s: boot clients fetch files by TFTP and HTTP, and neither is served; add %s :69", failure.Flag("boot"), failure.Flag("tftp"))
	when(s.Advise != "" && !slices.Contains(dhcpadvice.Servers(), s.Advise), "boot", "%s %s: it is one of %s", failure.Flag("advise"), s.Advise, strings.Join(dhcpadvice.Servers(), ", "))
	when(s.Timeout < 0, "boot-timeout", "%s %v: must not be below 0", failure.Flag("boot-timeout"), s.Timeout)
	when(s.KnownOnly && len(s.Hosts) == 0, "boot-known", "%s answers only the machines of %s, and none is named", failure.Flag("boot-known"), failure.Flag("boot-host"))
	when(s.Address.IsValid() && (!s.Address.Is4() || !s.Address.IsGlobalUnicast()), "boot-address", "%s %v: it is the IPv4 address of a machine", failure.Flag("boot-address"), s.Address)
	only4 := true
	for _, p := range s.Relays {
		only4 = only4 && p.Addr().Is4()
		when(!p.Addr().Is4(), "boot-relay", "%s %v: it is a network of IPv4", failure.Flag("boot-relay"), p)
	}
	if !only4 {
		return
	}
	_, err := pxe.NewServer(s.rules(nil, nil))
	when(err != nil, "boot-file", "%w", err)
}

// rules returns the rules for package pxe. found holds the boot files that were found. http holds
// the addresses at which HTTP is served.
func (s *Settings) rules(found map[pxe.Arch]string, http []netip.AddrPort) pxe.Rules {
	r := pxe.Rules{Files: map[pxe.Arch]string{}, HTTPPorts: map[dhcp.Addr]uint16{}, Hosts: s.Hosts, KnownOnly: s.KnownOnly}
	for _, files := range []map[pxe.Arch]string{found, s.Files} {
		maps.Copy(r.Files, files)
	}
	for _, at := range slices.Backward(http) { // backward, so that the first of several addresses wins
		switch addr := at.Addr().Unmap(); {
		case at.Port() == 0 || addr.IsLoopback() || addr.Is6() && !addr.IsUnspecified():
			// Clients cannot reach this address.
		case addr.Is4() && !addr.IsUnspecified() && (addr == s.Address || !s.Address.IsValid()):
			r.HTTPPorts[addr.As4()] = at.Port()
		default: // all addresses, or one to which a router may forward requests for s.Address
			r.HTTPPort = at.Port()
		}
	}
	for _, p := range s.Relays {
		r.Relays = append(r.Relays, dhcp.Network{Addr: p.Addr().As4(), Bits: p.Bits()})
	}
	return r
}
