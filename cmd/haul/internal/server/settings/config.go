// Package settings has the settings of a server: what "haul serve" serves, to whom and how.
// They are values alone: nothing here is open or runs. Package config reads them from a file,
// variables and flags; package serve makes a server of them.
package settings

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/boot/proxydhcp"
	"github.com/haul-project/haul/cmd/haul/internal/server/notify"
	"github.com/haul-project/haul/cmd/haul/internal/server/site"
	"github.com/haul-project/haul/cmd/haul/internal/server/source"
	"github.com/haul-project/haul/cmd/haul/internal/tftp/trace"
	"github.com/haul-project/haul/internal/certs"
	"github.com/haul-project/haul/internal/penalty"
	"github.com/haul-project/haul/store/cache"
	"github.com/haul-project/haul/tftp"
)

// A Config describes what to serve, to whom and how. [Default] returns one to start
// with. [Config.Check] reports mistakes.
//
// An address is HOST:PORT or :PORT. A protocol is served if its list of addresses has
// one that is not empty. The sizes are in bytes, the rates in bytes a second.
type Config struct {
	// Dirs are the directories to serve, at least one, or URLs of sources: see package
	// source. TFTP, and HTTP without users, search them in order; users who log in get the
	// first.
	Dirs []string

	Cache source.Caching // of sources

	TFTP  TFTP
	SFTP  SFTP
	HTTP  HTTP
	Files Files
	Boot  proxydhcp.Settings
	Trace trace.Setup // of packets of TFTP, as text on the server's output

	// Allow and Deny are the networks that are served, and those that are not. An empty
	// Allow serves all.
	Allow, Deny []netip.Prefix

	// NoFsync publishes uploads without waiting for the disk, except at the checkpoints of
	// those that can be resumed. It holds for uploads of users too. A crash of the machine
	// may then lose files that clients have seen succeed, or leave them with a part of
	// their content.
	NoFsync bool

	// Congestion names the congestion control of TCP for SFTP and HTTP, such as "bbr"; ""
	// means the system's default. Only Linux has a choice.
	Congestion string

	// Grace is how long transfers may continue once the server ends. It is above 0; the
	// default is that of [tftp.Defaults].
	Grace time.Duration

	// User is the user that the process changes to once its files and sockets are open:
	// NAME, NAME:GROUP or UID:GID. By default it stays the same user.
	User string

	// Unconfined keeps all rights of the process, whatever User says. It is for tests,
	// since a process cannot get its rights back.
	Unconfined bool

	// Restartable allows restarts without downtime, by SIGUSR2.
	Restartable bool

	// Reload has SIGHUP, too, start this server anew, which reads its configuration file
	// again. Set it if the settings come from a file; without it SIGHUP ends the server.
	// It implies Restartable.
	Reload bool

	// Metrics is the address of metrics for Prometheus; "" means none.
	Metrics string

	Status Status

	// Version is the program's version, for the metrics.
	Version string

	// LogFormat is "text", the default, or "json".
	LogFormat string

	// Quiet logs failures only.
	Quiet bool

	// Notify are the settings of hooks and the audit log.
	Notify notify.Settings
}

// Files are the rules for clients who do not log in, by TFTP and HTTP.
type Files struct {
	Roots     []Root         // directories for some clients; the first match counts
	PerClient site.PerClient // gives each client a directory below the others
	Shared    bool           // with PerClient: what is missing there comes from the directory above
	Map       string         // the file of rules that rewrite names
	FoldCase  bool           // names match files in any case
	Hidden    bool           // serves names that begin with a dot, and accepts them
	Access    []site.Rule    // who may read or write what; the first match counts

	// Upload lets clients write files; the default is that they may not. UploadDir is
	// the directory for them, from which nothing is served; "" means the first of Dirs.
	// If SFTP is served alone and without a users file, Upload is for its one user.
	Upload    site.Policy
	UploadDir string

	// MaxUpload bounds an upload by TFTP or HTTP, users' as well. It is above 0; the
	// default is that of [tftp.Defaults].
	MaxUpload int64
}

// A Root is a directory for some clients.
type Root struct {
	For site.Match
	Dir string
}

// TFTP are the settings of TFTP.
type TFTP struct {
	// Listen are the addresses; the default is ":69". Fallback is used if the process cannot
	// have them; "" means none.
	Listen   []string
	Fallback string

	// SinglePort answers from the port that got the request. Otherwise each transfer has
	// a port from FirstPort to LastPort, or one that the kernel chooses if they are 0.
	SinglePort          bool
	FirstPort, LastPort uint16

	// MTU bounds the IP packets that are sent: MinMTU to MaxMTU bytes, 0 for the MTU that
	// the kernel reports (the default), -1 for any that clients choose.
	MTU int

	MaxTransfers int   // at a time, 1 to 1,048,576; the default is that of tftp.Defaults
	MaxPerClient int   // transfers at a time for one address; 0 means no limit
	Rate         int   // requests a second from one address; 0 means that of tftp.Defaults, -1 no limit
	Loops        int   // event loops for each address, up to 1024; 0 means one for two CPUs
	Memory       int64 // for the buffers of all transfers, 1 MiB to 1 TiB; the default is that of tftp.Defaults
	BlockSize    int   // the largest block, in bytes; 0 means any
	WindowSize   int   // the largest window, 1 to 65535 blocks; the default is that of tftp.Defaults

	// Bandwidth and BandwidthPerClient limit the bytes a second each way, of all transfers
	// together and of those of one address; 0 means no limit.
	Bandwidth, BandwidthPerClient int64

	Refuse   []tftp.ClientRule // each sets Refuse
	Rollover []tftp.ClientRule // each sets Rollover

	NoOffload     bool // the kernel does not split and join datagrams
	UploadParents bool // uploads create missing directories
}

// Bounds of [TFTP.MTU], in bytes: the least that IPv4 requires of a link, and its largest
// packet.
const (
	MinMTU = 68
	MaxMTU = 65535
)

// ErrMTU says what an MTU may be.
var ErrMTU = fmt.Errorf("it is auto, none, or %d to %d bytes", MinMTU, MaxMTU)

// SFTP are the settings of SFTP.
type SFTP struct {
	Listen []string // the addresses; none by default

	// Users is the users file. The default is the one of [DefaultUsersFile] if it
	// exists; otherwise one user gets a password for this run.
	Users string

	// HostKeys is the directory of the host keys; "" means the default. With
	// [NoHostKeys] the key is for this run only.
	HostKeys string

	Rate              int64 // each way, for all users together; 0 means no limit
	MaxConns          int   // at a time, 1 to 65,536; the default is 1024
	MaxConnsPerSource int   // of one address (IPv6: one /64), 1 to 65,536; the default is penalty.DefaultMaxConnsPerSource

	// Connections from the networks of Proxies begin with a PROXY header. With
	// UnixProxies so do all that come by a unix socket.
	Proxies     []netip.Prefix
	UnixProxies bool

	InPlace     bool           // shows an upload under its name from its first byte on
	SpecialBits bool           // users may set setuid, setgid and sticky bits
	Exempt      []netip.Prefix // never locked out, and without a limit for one address
}

// NoHostKeys is the value of [SFTP.HostKeys] for a key in memory, for example to serve
// a tree that contains all default directories of host keys.
const NoHostKeys = "none"

// HTTP are the settings of HTTP and HTTPS.
type HTTP struct {
	Listen    []string // the addresses of HTTP; the default is ":80"
	Fallback  string   // the address if the process cannot have those; "" means none
	ListenTLS []string // the addresses of HTTPS; none by default

	// Cert and Key are PEM files: the certificate with its intermediates, and its
	// private key. The default of Key is Cert; without Cert, HTTPS has a self-signed one.
	Cert, Key string

	Listing       bool   // shows the entries of directories
	Index         string // the file served for a directory, if it is there; "" means none; the default is index.html
	Precompressed bool   // sends NAME.br, NAME.zst or NAME.gz for NAME

	// Users is the users file; "" serves everybody. Without HTTPS it requires
	// PlainPasswords, and a proxy in front that does TLS.
	Users          string
	PlainPasswords bool
	Exempt         []netip.Prefix // never locked out for wrong passwords

	Rate              int64 // each way, for all of HTTP together; 0 means no limit
	RatePerSource     int64 // each way, for one address (IPv6: one /64), without users; 0 means no limit
	MaxConnsPerSource int   // to a port, of one address (IPv6: one /64), up to 65,536; 0 means half of all

	// Connections from the networks of Proxies begin with a PROXY header. With
	// UnixProxies so do all that come by a unix socket.
	Proxies     []netip.Prefix
	UnixProxies bool
}

// Status are the settings of the status page.
type Status struct {
	// Listen is its address; "" means none. At one that others than this machine can reach,
	// it takes Users and Cert.
	Listen string

	Users     string   // the users file of those who may look; "" lets all who can connect look
	Cert, Key string   // as of HTTPS
	Hosts     []string // names by which browsers reach the page without Users
	Profiles  bool     // shows profiles of the process, too
}

// DefaultSFTPConns is the default of [SFTP.MaxConns].
const DefaultSFTPConns = 1024

// Default returns the settings of "haul serve" without flags: TFTP and HTTP, read-only.
func Default() Config {
	of := tftp.Defaults()
	return Config{
		Grace:     of.Grace,
		LogFormat: "text",
		TFTP: TFTP{
			Listen: []string{":69"}, MaxTransfers: of.MaxTransfers, Memory: of.Memory, WindowSize: of.Limits.Window,
		},
		SFTP:  SFTP{MaxConns: DefaultSFTPConns, MaxConnsPerSource: penalty.DefaultMaxConnsPerSource},
		HTTP:  HTTP{Listen: []string{":80"}, Index: "index.html"},
		Files: Files{MaxUpload: of.MaxUpload},
		Boot:  proxydhcp.DefaultSettings(),
		Cache: source.Caching{Fresh: cache.DefaultFresh},
	}
}

// ServesTFTP reports whether TFTP is served.
func (cfg *Config) ServesTFTP() bool { return AnyAddr(cfg.TFTP.Listen) }

// ServesSFTP reports whether SFTP is served.
func (cfg *Config) ServesSFTP() bool { return AnyAddr(cfg.SFTP.Listen) }

// ServesHTTP reports whether HTTP or HTTPS is served.
func (cfg *Config) ServesHTTP() bool { return AnyAddr(cfg.HTTP.Listen) || AnyAddr(cfg.HTTP.ListenTLS) }

// ServesAnybody reports whether files are served to clients who do not log in, by the
// rules of Files.
func (cfg *Config) ServesAnybody() bool {
	return cfg.ServesTFTP() || cfg.ServesHTTP() && cfg.HTTP.Users == ""
}

// ServesBootHTTP reports whether boot clients, which cannot log in, get files by HTTP.
func (cfg *Config) ServesBootHTTP() bool { return AnyAddr(cfg.HTTP.Listen) && cfg.HTTP.Users == "" }

// Restarts reports whether a successor can take over.
func (cfg *Config) Restarts() bool { return cfg.Restartable || cfg.Reload }

// Directories returns all directories and URLs that are served or uploaded to.
func (cfg *Config) Directories() []string {
	all := append([]string{}, cfg.Dirs...)
	for _, r := range cfg.Files.Roots {
		all = append(all, r.Dir)
	}
	return append(all, cfg.Files.UploadDir)
}

// Simple reports whether all clients get the same directory unchanged. Then they need no
// site, whose listings are limited to what fits in memory.
func (cfg *Config) Simple() bool {
	return len(cfg.Dirs) == 1 && len(cfg.Files.Roots) == 0 && cfg.Files.PerClient == site.NotPerClient && cfg.Files.Map == "" && len(cfg.Files.Access) == 0 &&
		!cfg.Files.FoldCase && cfg.Files.UploadDir == "" && cfg.Files.Upload != site.UploadUnique && !cfg.Boot.Answer
}

// Pair returns the files of the certificate.
func (cfg *HTTP) Pair() certs.Pair {
	return certs.Pair{Cert: cfg.Cert, Key: cmp.Or(cfg.Key, cfg.Cert)}
}

// Pair returns the files of the certificate.
func (s *Status) Pair() certs.Pair { return certs.Pair{Cert: s.Cert, Key: cmp.Or(s.Key, s.Cert)} }

// AnyAddr reports whether a list of addresses has one that is not empty.
func AnyAddr(addrs []string) bool {
	return slices.ContainsFunc(addrs, func(a string) bool { return a != "" })
}
