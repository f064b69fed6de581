package serve

import (
	"fmt"
	"net"
	"regexp"
	"strings"

	"github.com/haul-project/haul/internal/console"
	"github.com/haul-project/haul/internal/handover"
	"github.com/haul-project/haul/site"
	"github.com/haul-project/haul/tcp"
	"github.com/haul-project/haul/tftp/trace"
	"github.com/haul-project/haul/tftp/transfer"
)

// Check reports what is wrong with a configuration, as a [failure.Usage]. It opens
// nothing, so [Run] may find more.
func (cfg *Config) Check() error {
	if !cfg.ServesTFTP() && !cfg.ServesSFTP() && !cfg.ServesHTTP() {
		return usagef("", "nothing to serve: --tftp is empty, and so are --sftp, --http and --https")
	}
	if len(cfg.Dirs) == 0 {
		return usagef("", "nothing to serve: there is no directory")
	}
	if !cfg.ServesAnybody() && len(cfg.Dirs) > 1 {
		return usagef("", "users who log in get one directory, and %d are named; only TFTP, and HTTP without users, search several (a user can have another directory: see haul user --help)", len(cfg.Dirs))
	}
	if err := cfg.checkHTTP(); err != nil {
		return err
	}
	if err := cfg.checkNumbers(); err != nil {
		return err
	}
	if err := checkAddrs("tftp", "udp", cfg.TFTP.Listen); err != nil && cfg.ServesTFTP() {
		return err
	}
	if err := checkAddrs("sftp", "tcp", cfg.SFTP.Listen); err != nil && cfg.ServesSFTP() {
		return err
	}
	if err := cfg.checkDistinct(); err != nil {
		return err
	}
	if cfg.LogFormat != "text" && cfg.LogFormat != "json" {
		return usagef("log-format", "--log-format %s: choose text or json", cfg.LogFormat)
	}
	if err := cfg.checkCongestion(); err != nil {
		return err
	}
	if cfg.SFTP.HostKeys == NoHostKeys && (cfg.Restartable || cfg.Reload) {
		return usagef("host-keys", "--host-keys none: after a restart clients would meet another key; --restartable needs a directory of host keys")
	}
	if err := cfg.SFTP.check(); err != nil {
		return err
	}
	if cfg.ServesTFTP() {
		if err := cfg.TFTP.check(); err != nil {
			return err
		}
	}
	if cfg.ServesAnybody() {
		if err := cfg.checkFiles(); err != nil {
			return err
		}
	}
	if n := cfg.Trace.HexBytes; n < 0 || n > trace.MaxDatagram {
		return usagef("trace-hex", "--trace-hex %d: it is 0 to %d bytes", n, trace.MaxDatagram)
	} else if n != 0 && !cfg.Trace.Text {
		return usagef("trace-hex", "--trace-hex needs --trace: it shows the bytes of the packets that --trace shows")
	}
	return nil
}

// checkAddrs checks the addresses of a flag.
func checkAddrs(flag, network string, addrs []string) error {
	for _, addr := range addrs {
		_, port, err := net.SplitHostPort(addr)
		if err == nil {
			_, err = net.LookupPort(network, port)
		}
		if err != nil {
			return usagef(flag, "--%s %q: %w; it is HOST:PORT or :PORT", flag, addr, err)
		}
	}
	return nil
}

// checkDistinct refuses one address for two protocols over TCP. The system would report
// that another server uses it.
func (cfg *Config) checkDistinct() error {
	has := map[string]string{}
	for _, p := range []struct {
		flag  string
		addrs []string
	}{{"sftp", cfg.SFTP.Listen}, {"http", cfg.HTTP.Listen}, {"https", cfg.HTTP.ListenTLS}} {
		for _, addr := range p.addrs {
			if _, port, err := net.SplitHostPort(addr); err != nil || port == "0" {
				continue
			}
			if other, taken := has[addr]; taken && other != p.flag {
				return usagef(p.flag, "--%s and --%s have the same address, %s; give each a port of its own", other, p.flag, addr)
			}
			has[addr] = p.flag
		}
	}
	return nil
}

func (cfg *Config) checkNumbers() error {
	switch {
	case cfg.Files.MaxUpload <= 0:
		return usagef("max-upload", "--max-upload %d: must be above 0", cfg.Files.MaxUpload)
	case cfg.TFTP.MaxTransfers <= 0 || cfg.TFTP.MaxTransfers > mostTransfers:
		return usagef("max-transfers", "--max-transfers %d: it is 1 to %d", cfg.TFTP.MaxTransfers, mostTransfers)
	case cfg.TFTP.MaxPerClient < 0:
		return usagef("max-per-client", "--max-per-client %d: must not be below 0", cfg.TFTP.MaxPerClient)
	case cfg.TFTP.Rate < -1 || cfg.TFTP.Rate > mostRequests:
		return usagef("rate", "--rate %d: it is -1 for no limit, or 0 to %d requests a second", cfg.TFTP.Rate, mostRequests)
	case cfg.TFTP.Memory < leastMemory || cfg.TFTP.Memory > mostMemory:
		return usagef("memory", "--memory %s: it is %s to %s", console.FormatSize(cfg.TFTP.Memory), console.FormatSize(leastMemory), console.FormatSize(mostMemory))
	case cfg.TFTP.Loops < 0 || cfg.TFTP.Loops > MaxLoops:
		return usagef("loops", "--loops %d: it is 0 to %d", cfg.TFTP.Loops, MaxLoops)
	case cfg.TFTP.WindowSize == 0:
		return usagef("windowsize", "--windowsize 0: it is 1 to 65535 blocks")
	case cfg.Grace <= 0:
		return usagef("grace", "--grace %v: must be above 0", cfg.Grace)
	}
	if err := (transfer.Options{BlockSize: cfg.TFTP.BlockSize, Window: cfg.TFTP.WindowSize}).Check(); err != nil {
		return usagef("", "--%w", err) // it begins with the option's name
	}
	return cfg.checkRates()
}

// checkRates checks the rates, in bytes a second.
func (cfg *Config) checkRates() error {
	for _, r := range []struct {
		setting string
		rate    int64
	}{{"sftp-rate", cfg.SFTP.Rate}, {"http-rate", cfg.HTTP.Rate}, {"http-rate-per-source", cfg.HTTP.RatePerSource}} {
		if r.rate != 0 && (r.rate < leastRate || r.rate > mostRate) {
			return usagef(r.setting, "--%s %s: it is 0 for no limit, or %s to %s a second",
				r.setting, console.FormatSize(r.rate), console.FormatSize(leastRate), console.FormatSize(mostRate))
		}
	}
	return nil
}

// congestionName is what a congestion control is named.
var congestionName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,15}$`)

// checkCongestion checks what can be checked without asking the kernel.
func (cfg *Config) checkCongestion() error {
	switch name := cfg.Congestion; {
	case name == "":
	case !cfg.ServesSFTP() && !cfg.ServesHTTP():
		return usagef("tcp-congestion", "--tcp-congestion is for SFTP and HTTP, which are not served; TFTP has its own")
	case !congestionName.MatchString(name):
		return usagef("tcp-congestion", "--tcp-congestion %q: it is a name such as cubic or bbr", name)
	case !tcp.CanChooseCongestion:
		return usagef("tcp-congestion", "--tcp-congestion %s: this system lets no program choose; leave it out", name)
	}
	return nil
}

const (
	leastMemory = 1 << 20 // bytes: enough for some transfers with any block size
	mostMemory  = 1 << 40

	leastRate = 1 << 10 // bytes a second: a slower transfer looks like one that hangs
	mostRate  = 1 << 40

	mostTransfers = 1 << 20
	mostRequests  = 1 << 20 // a second, of TFTP
	// MaxLoops bounds [TFTP.Loops].
	MaxLoops = 1024
)

const (
	defaultConns = 1024
	mostConns    = 1 << 16
)

// check checks what can be checked without opening anything.
func (cfg *SFTP) check() error {
	if cfg.MaxConns <= 0 || cfg.MaxConns > mostConns {
		return usagef("sftp-conns", "--sftp-conns %d: it is 1 to %d", cfg.MaxConns, mostConns)
	}
	if cfg.MaxConnsPerSource <= 0 || cfg.MaxConnsPerSource > mostConns {
		return usagef("sftp-conns-per-source", "--sftp-conns-per-source %d: it is 1 to %d", cfg.MaxConnsPerSource, mostConns)
	}
	return nil
}

func (cfg *TFTP) check() error {
	switch {
	case cfg.FirstPort > cfg.LastPort || cfg.FirstPort == 0 && cfg.LastPort > 0:
		return usagef("ports", "--ports %s: it is FIRST-LAST, both from 1 to 65535", cfg.ports())
	case cfg.SinglePort && cfg.FirstPort > 0:
		return usagef("single-port", "--single-port and --ports exclude each other: with the first there is but one port")
	case cfg.MTU > MaxMTU || cfg.MTU < MinMTU && cfg.MTU != 0 && cfg.MTU != -1:
		return usagef("mtu", "--mtu %d: it is auto, none, or %d to %d bytes", cfg.MTU, MinMTU, MaxMTU)
	}
	return nil
}

// ports returns the range of ports as the flag takes it.
func (cfg *TFTP) ports() string {
	if cfg.FirstPort == cfg.LastPort {
		return fmt.Sprint(cfg.FirstPort)
	}
	return fmt.Sprintf("%d-%d", cfg.FirstPort, cfg.LastPort)
}

// services returns the names of the services.
func (cfg *Config) services() (names []string) {
	for _, s := range []struct {
		name   string
		served bool
	}{{handover.TFTP, cfg.ServesTFTP()}, {handover.SFTP, cfg.ServesSFTP()}, {handover.HTTP, anyAddr(cfg.HTTP.Listen)}, {handover.HTTPS, anyAddr(cfg.HTTP.ListenTLS)}} {
		if s.served {
			names = append(names, s.name)
		}
	}
	return names
}

// unixServices returns the names of those whose proxies may connect by unix sockets.
func (cfg *Config) unixServices() (names []string) {
	if cfg.SFTP.UnixProxies {
		names = append(names, handover.SFTP)
	}
	if cfg.HTTP.UnixProxies {
		names = append(names, handover.HTTP, handover.HTTPS)
	}
	return names
}

// checkHTTP checks what can be checked without opening anything.
func (cfg *Config) checkHTTP() error {
	for _, p := range []struct {
		flag  string
		addrs []string
	}{{"http", cfg.HTTP.Listen}, {"https", cfg.HTTP.ListenTLS}} {
		if err := checkAddrs(p.flag, "tcp", p.addrs); err != nil && anyAddr(p.addrs) {
			return err
		}
	}
	switch {
	case cfg.HTTP.MaxConnsPerSource < 0 || cfg.HTTP.MaxConnsPerSource > mostConns:
		return usagef("http-conns-per-source", "--http-conns-per-source %d: it is 0 to %d", cfg.HTTP.MaxConnsPerSource, mostConns)
	case anyAddr(cfg.HTTP.ListenTLS) && cfg.HTTP.Cert == "":
		return usagef("https", "--https takes --cert FILE, and --key FILE if the key is not in it")
	case cfg.HTTP.Cert != "" && !anyAddr(cfg.HTTP.ListenTLS):
		return usagef("cert", "--cert is for HTTPS, which is not served; add --https :443")
	case cfg.HTTP.Key != "" && cfg.HTTP.Cert == "":
		return usagef("key", "--key goes with --cert")
	case strings.ContainsAny(cfg.HTTP.Index, `/\`) || cfg.HTTP.Index == "." || cfg.HTTP.Index == "..":
		return usagef("index", "--index takes the name of a file in each directory, such as index.html, and no path")
	case cfg.HTTP.Users != "" && anyAddr(cfg.HTTP.Listen) && !cfg.HTTP.PlainPasswords:
		return usagef("http-auth", "--http-auth with --http: all on the way could read the passwords; serve by --https alone, or add --http-plain-auth if a proxy in front does TLS")
	case cfg.HTTP.PlainPasswords && cfg.HTTP.Users == "":
		return usagef("http-plain-auth", "--http-plain-auth goes with --http-auth: without it nobody is asked for a password")
	case cfg.HTTP.RatePerSource != 0 && cfg.HTTP.Users != "":
		return usagef("http-rate-per-source", "--http-rate-per-source is for HTTP without users; \"haul user set NAME --limit RATE\" limits a user")
	case len(cfg.HTTP.Exempt) > 0 && cfg.HTTP.Users == "":
		return usagef("http-exempt", "--http-exempt goes with --http-auth: without it nobody is asked for a password")
	case cfg.Files.Upload == site.UploadUnique && !cfg.ServesTFTP():
		return usagef("upload", "--upload unique is for TFTP, which is not served: by HTTP and SFTP, clients choose the names of files; choose create or overwrite, or add --tftp :69")
	}
	return cfg.checkPrecompressed()
}

// checkFiles checks the rules for clients who do not log in.
func (cfg *Config) checkFiles() error {
	switch {
	case cfg.Files.Shared && cfg.Files.PerClient == site.NotPerClient:
		return usagef("shared", "--shared goes with --per-client; without it all clients share DIR")
	case cfg.TFTP.UploadParents && cfg.Files.Upload == site.UploadNone:
		return usagef("upload-parents", "--upload-parents: without --upload nothing can be uploaded")
	case cfg.Files.UploadDir != "" && cfg.Files.Upload == site.UploadNone:
		return usagef("upload-dir", "--upload-dir %s: without --upload nothing can be uploaded", cfg.Files.UploadDir)
	}
	return nil
}

// checkPrecompressed refuses precompressed variants where a client could upload one for
// another's file, or where rules map a name and its variant to different directories.
func (cfg *Config) checkPrecompressed() error {
	switch {
	case !cfg.HTTP.Precompressed:
	case cfg.Files.Upload != site.UploadNone:
		return usagef("precompressed", "--precompressed with --upload: an upload of NAME.gz would change what all others get for NAME; leave out one of the two")
	case cfg.HTTP.Users != "", !cfg.simple():
		return usagef("precompressed", "--precompressed is for one DIR that everybody gets as it is; leave out --http-auth, --root, --per-client, --map, --access, --fold-case and all but one DIR")
	}
	return nil
}
