// Package settings defines the settings of a server: what "haul serve" serves, to which clients and
// how. They are plain values, so nothing in this package is open or running. Package config reads
// them from a file, variables and flags. Package serve builds a server from them.
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

// A Config describes what to serve, to which clients and how. [Default] returns a Config to start
// with. [Config.Check] reports mistakes.
//
// An address is HOST:PORT or :PORT. A protocol is served if one of its addresses is not empty.
// Sizes are in bytes, rates in bytes a second.
type Config struct {
	// Dirs are the directories to serve, at least one, or URLs of upstreams: see package source.
	// TFTP, and HTTP without users, search them in order. Users who log in get the first directory.
	Dirs []string

	// RedirectTo lists the servers, as HOST or HOST:PORT, to which web servers among the upstreams
	// may redirect.
	RedirectTo []string

	Cache source.Caching // says how data that was read from upstreams is kept on disk

	TFTP  TFTP
	SFTP  SFTP
	HTTP  HTTP
	Files Files
	Boot  proxydhcp.Settings
	Trace trace.Setup // records TFTP packets, for example as text on the server's output

	// Allow and Deny are the networks that are served and not served. An empty Allow allows all
	// networks.
	Allow, Deny []netip.Prefix

	// NoFsync publishes uploads without waiting for the disk, also for users who log in. Only the
	// checkpoints of resumable uploads still wait for it. If the machine crashes soon after an
	// upload, the file may be lost or incomplete, although the client was informed of success.
	NoFsync bool

	// Congestion names the TCP congestion control for SFTP and HTTP, such as "bbr"; "" means the
	// system's default. Only Linux supports this.
	Congestion string

	// Grace is how long transfers may continue when the server shuts down. It must be above 0. Its
	// default is in [tftp.Defaults].
	Grace time.Duration

	// User is the user that the process becomes once its files and sockets are open: NAME,
	// NAME:GROUP or UID:GID. By default the user does not change.
	User string

	// Unconfined keeps all rights of the process, whatever User says. It is for tests, because a
	// process cannot regain rights that it has given up.
	Unconfined bool

	// Restartable allows restarts without downtime, by SIGUSR2.
	Restartable bool

	// File is the configuration file; "" means that the settings come from no file. With a file,
	// SIGHUP restarts this server, so that it reads the file again, and File implies Restartable.
	// Without a file, SIGHUP stops the server.
	File string

	// Metrics is the address at which Prometheus reads metrics; "" means that there are no metrics.
	Metrics string

	Status Status

	// Version is the program's version, for the metrics.
	Version string

	// LogFormat is "text", the default, or "json".
	LogFormat string

	// Quiet restricts the log to failures.
	Quiet bool

	// Notify holds the settings for hooks and for the audit log.
	Notify notify.Settings
}

// Files holds the rules for clients that do not log in, by TFTP and HTTP.
type Files struct {
	Roots     []Root         // directories for some clients; the first match applies
	PerClient site.PerClient // says whether each client gets its own directory below these directories
	// Shared, with PerClient, means that a file missing in a client's own directory is read from
	// the directory above it.
	Shared   bool
	Map      string      // the file of rules that rewrite names
	FoldCase bool        // names match files in any case
	Hidden   bool        // names that begin with a dot are served and accepted too
	Access   []site.Rule // which clients may read or write which files; the first match applies

	// Upload lets clients write files; by default they may not. UploadDir is the directory for
	// uploads, which is not served; "" means the first of Dirs. If only SFTP is served, without a
	// users file, Upload applies to its single user.
	Upload    site.Policy
	UploadDir string

	// MaxUpload is the maximum size of an upload by TFTP or HTTP, also for users who log in. It
	// must be above 0. Its default is in [tftp.Defaults].
	MaxUpload int64
}

// A Root is a directory that is served only to the clients that fit For.
type Root struct {
	For site.Match
	Dir string
}

// TFTP holds the settings of TFTP.
type TFTP struct {
	// Listen lists the addresses; the default is ":69". Fallback is used in place of them if the
	// process is not permitted to use their ports, or if another server uses them; "" means that
	// there is no fallback.
	Listen   []string
	Fallback string

	// SinglePort makes the server answer from the port that received the request. Without it, each
	// transfer gets a port from FirstPort to LastPort. If these are 0, the kernel chooses a port.
	SinglePort          bool
	FirstPort, LastPort uint16

	// MTU is the maximum size of the IP packets that are sent, MinMTU to MaxMTU bytes. 0, the
	// default, means the MTU that the kernel reports, and -1 means any size that clients choose.
	MTU int

	MaxTransfers int   // transfers at a time, 1 to 1,048,576; the default is in tftp.Defaults
	MaxPerClient int   // transfers at a time for one address; 0 means no limit
	Rate         int   // requests a second from one address; 0 means the default of tftp.Defaults, -1 no limit
	Loops        int   // event loops for each address, up to 1024; 0 means one for every two CPUs
	Memory       int64 // memory for the buffers of all transfers, 1 MiB to 1 TiB; the default is in tftp.Defaults
	BlockSize    int   // the largest block, in bytes; 0 means any size
	WindowSize   int   // the largest window, 1 to 65535 blocks; the default is in tftp.Defaults

	// Bandwidth limits all transfers together, and BandwidthPerClient the transfers of one address.
	// Both are in bytes a second for each direction; 0 means no limit.
	Bandwidth, BandwidthPerClient int64

	Refuse   []tftp.ClientRule // options to refuse for some clients: rules that set ClientRule.Refuse
	Rollover []tftp.ClientRule // block number after 65535 for some clients: rules that set ClientRule.Rollover

	NoOffload     bool // keeps the kernel from splitting and joining datagrams
	UploadParents bool // uploads create missing directories
}

// These are the bounds of [TFTP.MTU], in bytes: the minimum that IPv4 requires of a link, and the
// largest IPv4 packet.
const (
	MinMTU = 68
	MaxMTU = 65535
)

// ErrMTU describes the valid values of an MTU.
var ErrMTU = fmt.Errorf("it is auto, none, or %d to %d bytes", MinMTU, MaxMTU)

// SFTP holds the settings of SFTP.
type SFTP struct {
	Listen []string // the addresses; none by default

	// Users is the users file. The default is the file of [DefaultUsersFile], if it exists.
	// Otherwise there is a single user, with a password for this run.
	Users string

	// HostKeys is the directory of the host keys; "" means the default. With [NoHostKeys], the
	// server uses a new key for this run, and keeps it in memory only.
	HostKeys string

	Rate     int64 // limits all users together, in bytes a second for each direction; 0 means no limit
	MaxConns int   // maximum number of connections, 1 to 65,536; the default is DefaultSFTPConns
	// MaxConnsPerSource is the maximum number of connections from one address (IPv6: one /64), 1 to
	// 65,536; the default is penalty.DefaultMaxConnsPerSource.
	MaxConnsPerSource int

	// Connections from the networks of Proxies begin with a PROXY header. With UnixProxies, so do
	// all connections by a unix socket.
	Proxies     []netip.Prefix
	UnixProxies bool

	InPlace     bool           // shows an upload under its final name from its first byte
	SpecialBits bool           // users may set setuid, setgid and sticky bits
	Exempt      []netip.Prefix // networks that are never locked out, and that MaxConnsPerSource does not apply to
}

// NoHostKeys is the value of [SFTP.HostKeys] that keeps the host key in memory only. It is needed,
// for example, to serve a tree that contains all default directories of host keys.
const NoHostKeys = "none"

// HTTP holds the settings of HTTP and HTTPS.
type HTTP struct {
	Listen []string // the addresses of HTTP; the default is ":80"
	// Fallback is used in place of Listen if the process is not permitted to use the ports, or if
	// another server uses them; "" means that there is no fallback.
	Fallback  string
	ListenTLS []string // the addresses of HTTPS; none by default

	// Cert and Key are PEM files: the certificate with its intermediates, and its private key. Key
	// is Cert by default. Without Cert, HTTPS uses a self-signed certificate.
	Cert, Key string

	Listing bool // a request for a directory is answered with a list of its entries
	// Index is the file that is served for a directory, if it exists. The default is index.html; ""
	// means no file.
	Index         string
	Precompressed bool // sends NAME.br, NAME.zst or NAME.gz in place of NAME to clients that accept it

	// Users is the users file; "" means that nobody has to log in. Without HTTPS, Users requires
	// PlainPasswords, and a proxy in front of the server that provides TLS.
	Users          string
	PlainPasswords bool
	Hosts          []string       // more host names by which browsers may reach the server; only without Users
	Exempt         []netip.Prefix // networks that are never locked out for wrong passwords

	Rate int64 // limits all clients together, in bytes a second for each direction; 0 means no limit
	// RatePerSource limits one address (IPv6: one /64), in bytes a second for each direction. It
	// applies only without Users; 0 means no limit.
	RatePerSource int64
	// MaxConnsPerSource limits the connections to a port from one address (IPv6: one /64), up to
	// 65,536. 0 means half of the connections that the port may have.
	MaxConnsPerSource int

	// Connections from the networks of Proxies begin with a PROXY header. With UnixProxies, so do
	// all connections by a unix socket.
	Proxies     []netip.Prefix
	UnixProxies bool
}

// Status holds the settings of the status page.
type Status struct {
	// Listen is the page's address; "" means that there is no page. If other machines can reach
	// the address, Users and Cert are required.
	Listen string

	Users     string   // the users file for logins to the page; "" means that everybody may see the page
	Cert, Key string   // the certificate and its key, as for HTTPS
	Hosts     []string // only without Users: the host names by which browsers may reach the page
	Profiles  bool     // the server of the page also offers profiles of the process
}

// DefaultSFTPConns is the default of [SFTP.MaxConns], in connections.
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

// ServesAnybody reports whether the server serves files to clients that do not log in, by the rules
// of Files.
func (cfg *Config) ServesAnybody() bool {
	return cfg.ServesTFTP() || cfg.ServesHTTP() && cfg.HTTP.Users == ""
}

// ServesBootHTTP reports whether HTTP serves files to boot clients, which cannot log in.
func (cfg *Config) ServesBootHTTP() bool { return AnyAddr(cfg.HTTP.Listen) && cfg.HTTP.Users == "" }

// Reloads reports whether SIGHUP restarts the server.
func (cfg *Config) Reloads() bool { return cfg.File != "" }

// Restarts reports whether a successor can take over.
func (cfg *Config) Restarts() bool { return cfg.Restartable || cfg.Reloads() }

// Directories returns all directories and URLs that files are served from or uploaded to.
func (cfg *Config) Directories() []string {
	all := append([]string{}, cfg.Dirs...)
	for _, r := range cfg.Files.Roots {
		all = append(all, r.Dir)
	}
	return append(all, cfg.Files.UploadDir)
}

// Simple reports whether all clients get the same directory unchanged. If so, no [site.Site] is
// needed. That is an advantage, because a Site has to keep a whole listing in memory.
func (cfg *Config) Simple() bool {
	return len(cfg.Dirs) == 1 && len(cfg.Files.Roots) == 0 && cfg.Files.PerClient == site.NotPerClient && cfg.Files.Map == "" && len(cfg.Files.Access) == 0 &&
		!cfg.Files.FoldCase && cfg.Files.UploadDir == "" && cfg.Files.Upload != site.UploadUnique && !cfg.Boot.Answer
}

// Pair returns the files of the certificate and of its key, which may be the same file.
func (cfg *HTTP) Pair() certs.Pair {
	return certs.Pair{Cert: cfg.Cert, Key: cmp.Or(cfg.Key, cfg.Cert)}
}

// Pair returns the files of the certificate and of its key, which may be the same file.
func (s *Status) Pair() certs.Pair { return certs.Pair{Cert: s.Cert, Key: cmp.Or(s.Key, s.Cert)} }

// AnyAddr reports whether a list contains an address that is not empty.
func AnyAddr(addrs []string) bool {
	return slices.ContainsFunc(addrs, func(a string) bool { return a != "" })
}
