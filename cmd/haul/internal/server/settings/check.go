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

// A flag is the name of a setting, for messages.
type flag = failure.Flag

// mistakes collects the mistakes that Check finds in a configuration.
type mistakes []error

// add adds a mistake in a setting; setting is "" if the mistake is in no particular setting.
func (m *mistakes) add(setting flag, format string, args ...any) {
	*m = append(*m, failure.Mistake(setting, format, args...))
}

// when adds a mistake if wrong is true.
func (m *mistakes) when(wrong bool, setting flag, format string, args ...any) {
	if wrong {
		m.add(setting, format, args...)
	}
}

// between adds a mistake if a number is out of its bounds.
func (m *mistakes) between(setting flag, n, least, most int) {
	m.when(n < least || n > most, setting, "%s %d: it is %d to %d", setting, n, least, most)
}

// rate adds a mistake if a rate is out of its bounds. The rate is in bytes a second.
func (m *mistakes) rate(setting flag, rate int64) {
	m.when(rate != 0 && (rate < leastRate || rate > mostRate), setting, "%s %s: it is 0 for no limit, or %s to %s a second",
		setting, console.FormatSize(rate), console.FormatSize(leastRate), console.FormatSize(mostRate))
}

// Check returns all mistakes in a configuration, joined, each a [failure.Usage]. It opens nothing,
// so a server that starts may find further mistakes.
func (cfg *Config) Check() error {
	var m mistakes
	m.when(!cfg.ServesTFTP() && !cfg.ServesSFTP() && !cfg.ServesHTTP(), "", "nothing to serve: %s is empty, and so are %s, %s and %s", flag("tftp"), flag("sftp"), flag("http"), flag("https"))
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
	m.when(cfg.LogFormat != "text" && cfg.LogFormat != "json", "log-format", "%s %s: choose text or json", flag("log-format"), cfg.LogFormat)
	cfg.checkCongestion(&m)
	cfg.Notify.Check(m.when)
	m.when(cfg.SFTP.HostKeys == NoHostKeys && cfg.Restarts(), "host-keys", "%s none: after a restart clients would meet another key; %s needs a directory of host keys", flag("host-keys"), flag("restartable"))
	if cfg.Metrics != "" {
		m.checkAddrs("metrics", "tcp", []string{cfg.Metrics})
	}
	cfg.Status.check(&m)
	if cfg.ServesAnybody() {
		cfg.checkFiles(&m)
	}
	return errors.Join(m...)
}

// checkAddrs checks the addresses of a setting.
func (m *mistakes) checkAddrs(setting flag, network string, addrs []string) {
	for _, addr := range addrs {
		_, port, err := net.SplitHostPort(addr)
		if err == nil {
			_, err = net.LookupPort(network, port)
		}
		if err != nil {
			m.add(setting, "%s %q: %w; it is HOST:PORT or :PORT", setting, addr, err)
		}
	}
}

// checkDistinct reports an address that is configured for two TCP services. Without this check, the
// system would report that another server uses the address.
func (cfg *Config) checkDistinct(m *mistakes) {
	has := map[string]flag{}
	for _, p := range []struct {
		flag  flag
		addrs []string
	}{{"sftp", cfg.SFTP.Listen}, {"http", cfg.HTTP.Listen}, {"https", cfg.HTTP.ListenTLS}, {"metrics", []string{cfg.Metrics}}, {"status", []string{cfg.Status.Listen}}} {
		for _, addr := range p.addrs {
			if _, port, err := net.SplitHostPort(addr); err != nil || port == "0" {
				continue
			}
			if other, taken := has[addr]; taken && other != p.flag {
				m.add(p.flag, "%s and %s have the same address, %s; give each a port of its own", other, p.flag, addr)
			}
			has[addr] = p.flag
		}
	}
}

// checkNumbers checks the numbers of all protocols, including those that are not served.
func (cfg *Config) checkNumbers(m *mistakes) {
	t := &cfg.TFTP
	m.when(cfg.Files.MaxUpload <= 0, "max-upload", "%s %d: must be above 0", flag("max-upload"), cfg.Files.MaxUpload)
	m.between("max-transfers", t.MaxTransfers, 1, mostTransfers)
	m.when(t.MaxPerClient < 0, "max-per-client", "%s %d: must not be below 0", flag("max-per-client"), t.MaxPerClient)
	m.when(t.Rate < -1 || t.Rate > mostRequests, "rate", "%s %d: it is -1 for no limit, or 0 to %d requests a second", flag("rate"), t.Rate, mostRequests)
	m.when(t.Memory < leastMemory || t.Memory > mostMemory, "memory", "%s %s: it is %s to %s",
		flag("memory"), console.FormatSize(t.Memory), console.FormatSize(leastMemory), console.FormatSize(mostMemory))
	m.rate("tftp-bandwidth", cfg.TFTP.Bandwidth)
	m.rate("tftp-bandwidth-per-client", cfg.TFTP.BandwidthPerClient)
	m.rate("sftp-rate", cfg.SFTP.Rate)
	m.rate("http-rate", cfg.HTTP.Rate)
	m.rate("http-rate-per-source", cfg.HTTP.RatePerSource)
	m.between("loops", t.Loops, 0, MaxLoops)
	m.when(cfg.Grace <= 0, "grace", "%s %v: must be above 0", flag("grace"), cfg.Grace)
	m.between("sftp-conns", cfg.SFTP.MaxConns, 1, mostConns)
	m.between("sftp-conns-per-source", cfg.SFTP.MaxConnsPerSource, 1, mostConns)
	m.between("http-conns-per-source", cfg.HTTP.MaxConnsPerSource, 0, mostConns)
	m.when(cfg.Trace.HexBytes < 0 || cfg.Trace.HexBytes > trace.MaxDatagram, "trace-hex", "%s %d: it is 0 to %d bytes", flag("trace-hex"), cfg.Trace.HexBytes, trace.MaxDatagram)
	m.when(cfg.Trace.HexBytes > 0 && !cfg.Trace.Text, "trace-hex", "%s needs %s: it shows the bytes of the packets that %s shows", flag("trace-hex"), flag("trace"), flag("trace"))
	if t.WindowSize == 0 { // check for 0 here, because Options would replace it with a default
		m.add("windowsize", "%s 0: it is 1 to 65535 blocks", flag("windowsize"))
	} else if err := (transfer.Options{BlockSize: t.BlockSize, Window: t.WindowSize}).Check(); err != nil {
		// The error begins with the name of the option, which is also the name of the setting.
		option, text, _ := strings.Cut(err.Error(), " ")
		m.add(flag(option), "%s %s", flag(option), text)
	}
}

// congestionName matches the name of a congestion control algorithm.
var congestionName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,15}$`)

// checkCongestion checks the name of the congestion control, as far as that is possible without the
// kernel.
func (cfg *Config) checkCongestion(m *mistakes) {
	switch name := cfg.Congestion; {
	case name == "":
	case !cfg.ServesSFTP() && !cfg.ServesHTTP():
		m.add("tcp-congestion", "%s is for SFTP and HTTP, which are not served; TFTP has its own", flag("tcp-congestion"))
	case !congestionName.MatchString(name):
		m.add("tcp-congestion", "%s %q: it is a name such as cubic or bbr", flag("tcp-congestion"), name)
	case !tcp.CanChooseCongestion:
		m.add("tcp-congestion", "%s %s: this system lets no program choose; leave it out", flag("tcp-congestion"), name)
	}
}

const (
	leastMemory = 1 << 20 // smallest TFTP.Memory, in bytes; enough for some transfers with any block size
	mostMemory  = 1 << 40

	leastRate = 1 << 10 // smallest rate limit, in bytes a second; a slower transfer would look as if it hung
	mostRate  = 1 << 40

	mostTransfers = 1 << 20
	mostRequests  = 1 << 20 // largest TFTP.Rate, in requests a second
	// MaxLoops is the maximum of [TFTP.Loops].
	MaxLoops = 1024
)

const (
	mostConns = 1 << 16
)

func (cfg *TFTP) check(m *mistakes) {
	m.when(cfg.FirstPort > cfg.LastPort || cfg.FirstPort == 0 && cfg.LastPort > 0, "ports", "%s %s: it is FIRST-LAST, both from 1 to 65535", flag("ports"), cfg.ports())
	m.when(cfg.SinglePort && cfg.FirstPort > 0, "single-port", "%s and %s exclude each other: with the first there is but one port", flag("single-port"), flag("ports"))
	m.when(cfg.MTU > MaxMTU || cfg.MTU < MinMTU && cfg.MTU != 0 && cfg.MTU != -1, "mtu", "%s %d: %w", flag("mtu"), cfg.MTU, ErrMTU)
}

// ports returns the range of ports in the syntax of the flag --ports.
func (cfg *TFTP) ports() string {
	if cfg.FirstPort == cfg.LastPort {
		return fmt.Sprint(cfg.FirstPort)
	}
	return fmt.Sprintf("%d-%d", cfg.FirstPort, cfg.LastPort)
}

// checkHTTP checks the settings of HTTP, without opening anything.
func (cfg *Config) checkHTTP(m *mistakes) {
	h := &cfg.HTTP
	plain, secure := AnyAddr(h.Listen), AnyAddr(h.ListenTLS)
	if plain {
		m.checkAddrs("http", "tcp", h.Listen)
	}
	if secure {
		m.checkAddrs("https", "tcp", h.ListenTLS)
	}
	m.when(h.Cert != "" && !secure, "cert", "%s is for HTTPS, which is not served; add %s :443", flag("cert"), flag("https"))
	m.when(h.Key != "" && h.Cert == "", "key", "%s goes with %s", flag("key"), flag("cert"))
	m.when(strings.ContainsAny(h.Index, `/\`) || h.Index == "." || h.Index == "..", "index", "%s takes the name of a file in each directory, such as index.html, and no path", flag("index"))
	m.when(h.Users != "" && plain && !h.PlainPasswords, "http-auth",
		"%s with %s: all on the way could read the passwords; serve by %s alone, or add %s if a proxy in front does TLS", flag("http-auth"), flag("http"), flag("https"), flag("http-plain-auth"))
	m.when(h.PlainPasswords && h.Users == "", "http-plain-auth", "%s goes with %s: without it nobody is asked for a password", flag("http-plain-auth"), flag("http-auth"))
	m.when(h.RatePerSource != 0 && h.Users != "", "http-rate-per-source",
		"%s is for HTTP without users; \"haul user set NAME --limit RATE\" limits a user", flag("http-rate-per-source"))
	m.when(len(h.Hosts) > 0 && h.Users != "", "http-host", "%s is for a server without %s; with it every name will do", flag("http-host"), flag("http-auth"))
	m.checkHosts("http-host", h.Hosts)
	m.when(len(h.Exempt) > 0 && h.Users == "", "http-exempt", "%s goes with %s: without it nobody is asked for a password", flag("http-exempt"), flag("http-auth"))
	m.when(cfg.Files.Upload == site.UploadUnique && !cfg.ServesTFTP(), "upload",
		"%s unique is for TFTP, which is not served: by HTTP and SFTP, clients choose the names of files; choose create or overwrite, or add %s :69", flag("upload"), flag("tftp"))
	cfg.checkPrecompressed(m)
}

// checkFiles checks the rules for clients that do not log in. Its errors never repeat a faulty URL,
// because the URL may contain a password.
func (cfg *Config) checkFiles(m *mistakes) {
	f := &cfg.Files
	m.when(cfg.Boot.Answer && f.PerClient != site.NotPerClient && !f.Shared, "per-client", "%s with %s: a machine with a directory of its own would get no boot files; add %s", flag("per-client"), flag("boot"), flag("shared"))
	m.when(f.Shared && f.PerClient == site.NotPerClient, "shared", "%s goes with %s; without it all clients share DIR", flag("shared"), flag("per-client"))
	if f.Upload == site.UploadNone {
		m.when(cfg.TFTP.UploadParents, "upload-parents", "%s: without %s nothing can be uploaded", flag("upload-parents"), flag("upload"))
		m.when(cfg.NoFsync && !cfg.ServesSFTP() && (cfg.HTTP.Users == "" || !cfg.ServesHTTP()), "no-fsync", "%s: without %s nothing can be uploaded", flag("no-fsync"), flag("upload"))
		m.when(f.UploadDir != "" && (!source.IsRemote(f.UploadDir) || source.Check(f.UploadDir) == nil), "upload-dir", "%s %s: without %s nothing can be uploaded", flag("upload-dir"), f.UploadDir, flag("upload"))
	}
}

// checkPrecompressed checks the setting for precompressed variants of files. It refuses that
// setting in two cases: if a client could upload a variant of another client's file, or if rules
// map a name and its variant to different directories.
func (cfg *Config) checkPrecompressed(m *mistakes) {
	switch {
	case !cfg.HTTP.Precompressed:
	case cfg.Files.Upload != site.UploadNone:
		m.add("precompressed", "%s with %s: an upload of NAME.gz would change what all others get for NAME; leave out one of the two", flag("precompressed"), flag("upload"))
	case cfg.HTTP.Users != "", !cfg.Simple():
		m.add("precompressed", "%s is for one DIR that everybody gets as it is; leave out %s, %s, %s, %s, %s, %s and all but one DIR", flag("precompressed"), flag("http-auth"), flag("root"), flag("per-client"), flag("map"), flag("access"), flag("fold-case"))
	}
}

// checkSources checks the cache, and the URLs among the directories.
func (cfg *Config) checkSources(m *mistakes) {
	remote, web := false, false
	check := func(setting flag, dir string) {
		remote, web = remote || source.IsRemote(dir), web || source.IsWeb(dir)
		switch err := source.Check(dir); {
		case err == nil || !source.IsRemote(dir):
		case setting == failure.Dirs:
			m.add(setting, "%w", err)
		default:
			m.add(setting, "%s: %w", setting, err)
		}
	}
	for _, dir := range cfg.Dirs {
		check(failure.Dirs, dir)
	}
	for _, r := range cfg.Files.Roots {
		check("root", r.Dir)
	}
	check("upload-dir", cfg.Files.UploadDir)
	for _, err := range []error{cfg.Cache.Check(remote), source.CheckRedirects(cfg.RedirectTo, web)} {
		if err != nil {
			*m = append(*m, err)
		}
	}
}

// checkHosts checks names by which browsers may reach a server.
func (m *mistakes) checkHosts(setting flag, names []string) {
	for _, name := range names {
		m.when(name == "" || strings.ContainsAny(name, ":/*[] ") || strings.HasSuffix(name, "."), setting, "%s %q: not a plain host name; give one such as files.example, without port, http:// or *", setting, name)
	}
}

func (s *Status) check(m *mistakes) {
	for _, one := range []struct {
		flag  flag
		given bool
	}{{"status-users", s.Users != ""}, {"status-cert", s.Cert != ""}, {"status-key", s.Key != ""}, {"status-host", len(s.Hosts) > 0}, {"status-pprof", s.Profiles}} {
		m.when(one.given && s.Listen == "", one.flag, "%s is for the status page, which is not served; add %s 127.0.0.1:9070", one.flag, flag("status"))
	}
	if s.Listen == "" {
		return
	}
	m.when(s.Users != "" && s.Cert == "", "status-users", "%s: all on the way could read the passwords; add %s FILE", flag("status-users"), flag("status-cert"))
	m.when(s.Cert != "" && s.Users == "", "status-cert", "%s goes with %s: without it nobody is asked for a password", flag("status-cert"), flag("status-users"))
	m.when(s.Key != "" && s.Cert == "", "status-key", "%s goes with %s", flag("status-key"), flag("status-cert"))
	m.when(len(s.Hosts) > 0 && s.Users != "", "status-host", "%s is for a page without %s; with it every name will do", flag("status-host"), flag("status-users"))
	m.checkHosts("status-host", s.Hosts)
	before := len(*m)
	m.checkAddrs("status", "tcp", []string{s.Listen})
	m.when(len(*m) == before && s.Users == "" && !status.Loopback(s.Listen), "status",
		"%s %s: others can reach that address, and would see names of files and addresses of clients; add %s FILE and %s FILE, or listen at 127.0.0.1:PORT", flag("status"), s.Listen, flag("status-users"), flag("status-cert"))
}
