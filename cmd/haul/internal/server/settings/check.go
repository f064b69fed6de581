package settings

import (
	"errors"
	"fmt"
	"net"
	"regexp"
	"strings"

	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/server/site"
	"github.com/haul-project/haul/cmd/haul/internal/server/source"
	"github.com/haul-project/haul/cmd/haul/internal/server/status"
	"github.com/haul-project/haul/cmd/haul/internal/tftp/trace"
	"github.com/haul-project/haul/tcp"
	"github.com/haul-project/haul/tftp/transfer"
)

// mistakes are those of a configuration.
type mistakes []error

// add adds a mistake in a setting; "" is none in particular.
func (m *mistakes) add(setting, format string, args ...any) {
	*m = append(*m, failure.Mistake(setting, format, args...))
}

// when adds a mistake if there is one.
func (m *mistakes) when(wrong bool, setting, format string, args ...any) {
	if wrong {
		m.add(setting, format, args...)
	}
}

// between adds a mistake if a number is out of its bounds.
func (m *mistakes) between(setting string, n, least, most int) {
	m.when(n < least || n > most, setting, "--%s %d: it is %d to %d", setting, n, least, most)
}

// rate adds a mistake if a rate, in bytes a second, is out of its bounds.
func (m *mistakes) rate(setting string, rate int64) {
	m.when(rate != 0 && (rate < leastRate || rate > mostRate), setting, "--%s %s: it is 0 for no limit, or %s to %s a second",
		setting, console.FormatSize(rate), console.FormatSize(leastRate), console.FormatSize(mostRate))
}

// Check reports what is wrong with a configuration: all mistakes joined, each a
// [failure.Usage]. It opens nothing, so [Run] may find more.
func (cfg *Config) Check() error {
	var m mistakes
	m.when(!cfg.ServesTFTP() && !cfg.ServesSFTP() && !cfg.ServesHTTP(), "", "nothing to serve: --tftp is empty, and so are --sftp, --http and --https")
	m.when(len(cfg.Dirs) == 0, "dirs", "nothing to serve: no directory is named, as in: haul serve DIR")
	m.when(!cfg.ServesAnybody() && len(cfg.Dirs) > 1, "",
		"users who log in get one directory, and %d are named; only TFTP, and HTTP without users, search several (a user can have another directory: see haul user --help)", len(cfg.Dirs))
	cfg.checkSources(&m)
	cfg.Boot.Check(cfg.ServesTFTP() || cfg.ServesBootHTTP(), m.when)
	cfg.checkHTTP(&m)
	cfg.checkNumbers(&m)
	if cfg.ServesTFTP() {
		m.checkAddrs("tftp", "udp", cfg.TFTP.Listen)
		cfg.TFTP.check(&m)
	}
	if cfg.ServesSFTP() {
		m.checkAddrs("sftp", "tcp", cfg.SFTP.Listen)
	}
	cfg.checkDistinct(&m)
	m.when(cfg.LogFormat != "text" && cfg.LogFormat != "json", "log-format", "--log-format %s: choose text or json", cfg.LogFormat)
	cfg.checkCongestion(&m)
	cfg.Notify.Check(m.when)
	m.when(cfg.SFTP.HostKeys == NoHostKeys && cfg.Restarts(), "host-keys", "--host-keys none: after a restart clients would meet another key; --restartable needs a directory of host keys")
	if cfg.Metrics != "" {
		m.checkAddrs("metrics", "tcp", []string{cfg.Metrics})
	}
	cfg.Status.check(&m)
	if cfg.ServesAnybody() {
		cfg.checkFiles(&m)
	}
	return errors.Join(m...)
}

// checkAddrs checks the addresses of a flag.
func (m *mistakes) checkAddrs(flag, network string, addrs []string) {
	for _, addr := range addrs {
		_, port, err := net.SplitHostPort(addr)
		if err == nil {
			_, err = net.LookupPort(network, port)
		}
		if err != nil {
			m.add(flag, "--%s %q: %w; it is HOST:PORT or :PORT", flag, addr, err)
		}
	}
}

// checkDistinct refuses one address for two services over TCP. The system would report
// that another server uses it.
func (cfg *Config) checkDistinct(m *mistakes) {
	has := map[string]string{}
	for _, p := range []struct {
		flag  string
		addrs []string
	}{{"sftp", cfg.SFTP.Listen}, {"http", cfg.HTTP.Listen}, {"https", cfg.HTTP.ListenTLS}, {"metrics", []string{cfg.Metrics}}, {"status", []string{cfg.Status.Listen}}} {
		for _, addr := range p.addrs {
			if _, port, err := net.SplitHostPort(addr); err != nil || port == "0" {
				continue
			}
			if other, taken := has[addr]; taken && other != p.flag {
				m.add(p.flag, "--%s and --%s have the same address, %s; give each a port of its own", other, p.flag, addr)
			}
			has[addr] = p.flag
		}
	}
}

// checkNumbers checks the numbers of all protocols, also of those that are not served.
func (cfg *Config) checkNumbers(m *mistakes) {
	t := &cfg.TFTP
	m.when(cfg.Files.MaxUpload <= 0, "max-upload", "--max-upload %d: must be above 0", cfg.Files.MaxUpload)
	m.between("max-transfers", t.MaxTransfers, 1, mostTransfers)
	m.when(t.MaxPerClient < 0, "max-per-client", "--max-per-client %d: must not be below 0", t.MaxPerClient)
	m.when(t.Rate < -1 || t.Rate > mostRequests, "rate", "--rate %d: it is -1 for no limit, or 0 to %d requests a second", t.Rate, mostRequests)
	m.when(t.Memory < leastMemory || t.Memory > mostMemory, "memory", "--memory %s: it is %s to %s",
		console.FormatSize(t.Memory), console.FormatSize(leastMemory), console.FormatSize(mostMemory))
	m.rate("tftp-bandwidth", cfg.TFTP.Bandwidth)
	m.rate("tftp-bandwidth-per-client", cfg.TFTP.BandwidthPerClient)
	m.rate("sftp-rate", cfg.SFTP.Rate)
	m.rate("http-rate", cfg.HTTP.Rate)
	m.rate("http-rate-per-source", cfg.HTTP.RatePerSource)
	m.between("loops", t.Loops, 0, MaxLoops)
	m.when(cfg.Grace <= 0, "grace", "--grace %v: must be above 0", cfg.Grace)
	m.between("sftp-conns", cfg.SFTP.MaxConns, 1, mostConns)
	m.between("sftp-conns-per-source", cfg.SFTP.MaxConnsPerSource, 1, mostConns)
	m.between("http-conns-per-source", cfg.HTTP.MaxConnsPerSource, 0, mostConns)
	m.when(cfg.Trace.HexBytes < 0 || cfg.Trace.HexBytes > trace.MaxDatagram, "trace-hex", "--trace-hex %d: it is 0 to %d bytes", cfg.Trace.HexBytes, trace.MaxDatagram)
	m.when(cfg.Trace.HexBytes > 0 && !cfg.Trace.Text, "trace-hex", "--trace-hex needs --trace: it shows the bytes of the packets that --trace shows")
	if t.WindowSize == 0 { // which Options take for their default
		m.add("windowsize", "--windowsize 0: it is 1 to 65535 blocks")
	} else if err := (transfer.Options{BlockSize: t.BlockSize, Window: t.WindowSize}).Check(); err != nil {
		setting, _, _ := strings.Cut(err.Error(), " ") // it begins with the option's name
		m.add(setting, "--%w", err)
	}
}

// congestionName is what a congestion control is named.
var congestionName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,15}$`)

// checkCongestion checks what can be checked without asking the kernel.
func (cfg *Config) checkCongestion(m *mistakes) {
	switch name := cfg.Congestion; {
	case name == "":
	case !cfg.ServesSFTP() && !cfg.ServesHTTP():
		m.add("tcp-congestion", "--tcp-congestion is for SFTP and HTTP, which are not served; TFTP has its own")
	case !congestionName.MatchString(name):
		m.add("tcp-congestion", "--tcp-congestion %q: it is a name such as cubic or bbr", name)
	case !tcp.CanChooseCongestion:
		m.add("tcp-congestion", "--tcp-congestion %s: this system lets no program choose; leave it out", name)
	}
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
	mostConns = 1 << 16
)

func (cfg *TFTP) check(m *mistakes) {
	m.when(cfg.FirstPort > cfg.LastPort || cfg.FirstPort == 0 && cfg.LastPort > 0, "ports", "--ports %s: it is FIRST-LAST, both from 1 to 65535", cfg.ports())
	m.when(cfg.SinglePort && cfg.FirstPort > 0, "single-port", "--single-port and --ports exclude each other: with the first there is but one port")
	m.when(cfg.MTU > MaxMTU || cfg.MTU < MinMTU && cfg.MTU != 0 && cfg.MTU != -1, "mtu", "--mtu %d: %w", cfg.MTU, ErrMTU)
}

// ports returns the range of ports as the flag takes it.
func (cfg *TFTP) ports() string {
	if cfg.FirstPort == cfg.LastPort {
		return fmt.Sprint(cfg.FirstPort)
	}
	return fmt.Sprintf("%d-%d", cfg.FirstPort, cfg.LastPort)
}

// checkHTTP checks what can be checked without opening anything.
func (cfg *Config) checkHTTP(m *mistakes) {
	h := &cfg.HTTP
	plain, secure := AnyAddr(h.Listen), AnyAddr(h.ListenTLS)
	if plain {
		m.checkAddrs("http", "tcp", h.Listen)
	}
	if secure {
		m.checkAddrs("https", "tcp", h.ListenTLS)
	}
	m.when(h.Cert != "" && !secure, "cert", "--cert is for HTTPS, which is not served; add --https :443")
	m.when(h.Key != "" && h.Cert == "", "key", "--key goes with --cert")
	m.when(strings.ContainsAny(h.Index, `/\`) || h.Index == "." || h.Index == "..", "index", "--index takes the name of a file in each directory, such as index.html, and no path")
	m.when(h.Users != "" && plain && !h.PlainPasswords, "http-auth",
		"--http-auth with --http: all on the way could read the passwords; serve by --https alone, or add --http-plain-auth if a proxy in front does TLS")
	m.when(h.PlainPasswords && h.Users == "", "http-plain-auth", "--http-plain-auth goes with --http-auth: without it nobody is asked for a password")
	m.when(h.RatePerSource != 0 && h.Users != "", "http-rate-per-source",
		"--http-rate-per-source is for HTTP without users; \"haul user set NAME --limit RATE\" limits a user")
	m.when(len(h.Exempt) > 0 && h.Users == "", "http-exempt", "--http-exempt goes with --http-auth: without it nobody is asked for a password")
	m.when(cfg.Files.Upload == site.UploadUnique && !cfg.ServesTFTP(), "upload",
		"--upload unique is for TFTP, which is not served: by HTTP and SFTP, clients choose the names of files; choose create or overwrite, or add --tftp :69")
	cfg.checkPrecompressed(m)
}

// checkFiles checks the rules for clients who do not log in. A URL with a mistake may have a password, and is not shown.
func (cfg *Config) checkFiles(m *mistakes) {
	f := &cfg.Files
	m.when(cfg.Boot.Answer && f.PerClient != site.NotPerClient && !f.Shared, "per-client", "--per-client with --boot: a machine with a directory of its own would get no boot files; add --shared")
	m.when(f.Shared && f.PerClient == site.NotPerClient, "shared", "--shared goes with --per-client; without it all clients share DIR")
	if f.Upload == site.UploadNone {
		m.when(cfg.TFTP.UploadParents, "upload-parents", "--upload-parents: without --upload nothing can be uploaded")
		m.when(cfg.NoFsync && !cfg.ServesSFTP() && (cfg.HTTP.Users == "" || !cfg.ServesHTTP()), "no-fsync", "--no-fsync: without --upload nothing can be uploaded")
		m.when(f.UploadDir != "" && (!source.IsRemote(f.UploadDir) || source.Check(f.UploadDir) == nil), "upload-dir", "--upload-dir %s: without --upload nothing can be uploaded", f.UploadDir)
	}
}

// checkPrecompressed refuses precompressed variants where a client could upload one for
// another's file, or where rules map a name and its variant to different directories.
func (cfg *Config) checkPrecompressed(m *mistakes) {
	switch {
	case !cfg.HTTP.Precompressed:
	case cfg.Files.Upload != site.UploadNone:
		m.add("precompressed", "--precompressed with --upload: an upload of NAME.gz would change what all others get for NAME; leave out one of the two")
	case cfg.HTTP.Users != "", !cfg.Simple():
		m.add("precompressed", "--precompressed is for one DIR that everybody gets as it is; leave out --http-auth, --root, --per-client, --map, --access, --fold-case and all but one DIR")
	}
}

// checkSources checks the URLs among the directories, and the cache.
func (cfg *Config) checkSources(m *mistakes) {
	remote := false
	check := func(setting, text, dir string) {
		remote = remote || source.IsRemote(dir)
		if err := source.Check(dir); err != nil && source.IsRemote(dir) {
			m.add(setting, text+"%w", err)
		}
	}
	for _, dir := range cfg.Dirs {
		check("dirs", "", dir)
	}
	for _, r := range cfg.Files.Roots {
		check("root", "--root: ", r.Dir)
	}
	check("upload-dir", "--upload-dir: ", cfg.Files.UploadDir)
	if setting, err := cfg.Cache.Check(remote); err != nil {
		m.add(setting, "%w", err)
	}
}

func (s *Status) check(m *mistakes) {
	for _, one := range []struct {
		flag  string
		given bool
	}{{"status-users", s.Users != ""}, {"status-cert", s.Cert != ""}, {"status-key", s.Key != ""}, {"status-host", len(s.Hosts) > 0}, {"status-pprof", s.Profiles}} {
		m.when(one.given && s.Listen == "", one.flag, "--%s is for the status page, which is not served; add --status 127.0.0.1:9070", one.flag)
	}
	if s.Listen == "" {
		return
	}
	m.when(s.Users != "" && s.Cert == "", "status-users", "--status-users: all on the way could read the passwords; add --status-cert FILE")
	m.when(s.Cert != "" && s.Users == "", "status-cert", "--status-cert goes with --status-users: without it nobody is asked for a password")
	m.when(s.Key != "" && s.Cert == "", "status-key", "--status-key goes with --status-cert")
	m.when(len(s.Hosts) > 0 && s.Users != "", "status-host", "--status-host is for a page without --status-users; with it every name will do")
	for _, name := range s.Hosts {
		m.when(name == "" || strings.ContainsAny(name, ":/*[] ") || strings.HasSuffix(name, "."), "status-host", "--status-host %q: it is a name as in status.example, without port, http:// or *", name)
	}
	before := len(*m)
	m.checkAddrs("status", "tcp", []string{s.Listen})
	m.when(len(*m) == before && s.Users == "" && !status.Loopback(s.Listen), "status",
		"--status %s: others can reach that address, and would see names of files and addresses of clients; add --status-users FILE and --status-cert FILE, or listen at 127.0.0.1:PORT", s.Listen)
}
