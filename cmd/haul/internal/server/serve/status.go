package serve

import (
	"cmp"
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"strings"

	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/server/handover"
	"github.com/haul-project/haul/cmd/haul/internal/server/meter"
	"github.com/haul-project/haul/cmd/haul/internal/server/metricsserver"
	"github.com/haul-project/haul/cmd/haul/internal/server/status"
	"github.com/haul-project/haul/cmd/haul/internal/server/userroots"
	"github.com/haul-project/haul/cmd/haul/internal/system/privilege"
	"github.com/haul-project/haul/internal/certs"
	"github.com/haul-project/haul/tcp"
)

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

// pair returns the files of the certificate.
func (s *Status) pair() certs.Pair { return certs.Pair{Cert: s.Cert, Key: cmp.Or(s.Key, s.Cert)} }

// A statusPage is what the status page needs besides its socket.
type statusPage struct {
	board *status.Board
	users *userSessions // nil if nobody has to log in
	tls   *tls.Config
}

// openStatus opens what the status page needs besides its socket.
func (cfg *Config) openStatus(owners []int, log *slog.Logger) error {
	s := &cfg.Status
	if s.Listen == "" || s.Users == "" {
		return nil
	}
	file, err := filepath.Abs(s.Users)
	if err != nil {
		return err
	}
	dir, err := OpenUsersFile(file, owners...)
	if err != nil {
		return inSetting("status-users", err)
	}
	set, err := certs.Load(s.pair())
	if err != nil {
		return inSetting("status-cert", failure.Local.Wrap(err))
	}
	logCertificate(set, "status", sayTo(log))
	cfg.status.users, cfg.status.tls = &userSessions{dir: dir, file: file}, certs.ServerConfig(set.GetCertificate)
	return nil
}

// statusSecrets are the files of the status page that no client may have.
func (cfg *Config) statusSecrets() (all []userroots.Secret) {
	if cfg.status.users == nil {
		return nil
	}
	return []userroots.Secret{
		{Flag: "--status-users", What: "the users file of the status page", Path: cfg.status.users.file},
		{Flag: "--status-key", What: "the key of the status page", Path: cfg.Status.pair().Key},
	}
}

// sandboxStatus adds the files that the status page reads again when they change.
func (cfg *Config) sandboxStatus(c *privilege.Confinement) {
	if cfg.status.users != nil {
		c.Read = append(append(c.Read, cfg.status.users.reads()...), cfg.Status.pair().Dirs()...)
	}
}

// adminConnsPerSource is how many connections one address (IPv6: one /64) may have to a port for
// operators that others than this machine can reach. Such a port has 64, and 16 browsers get what
// changes of the status page: so one address cannot take all of either.
const adminConnsPerSource = 12

// An adminPort shows operators what the server does.
type adminPort struct {
	service string
	accept  tcp.Server
	sockets []*tcp.Socket
	asked   []string // the address as configured
	close   func()
}

// startAdmin serves the metrics and the status page of all services. The caller closes the
// ports, also if there is an error.
func (cfg *Config) startAdmin(ctx context.Context, all []service, counts *meter.Registry, passed *handover.Inherited, log *slog.Logger, out io.Writer) (ports []*adminPort, err error) {
	if counts == nil {
		return nil, nil
	}
	for _, s := range all {
		s.registerMetrics(counts)
	}
	cfg.sources.RegisterMetrics(counts)
	cfg.notifier.RegisterMetrics(counts)
	for _, one := range []struct {
		service, addr string
		start         func(p *adminPort, l net.Listener) error
	}{
		{handover.Metrics, cfg.Metrics, func(p *adminPort, l net.Listener) error {
			p.close = metricsserver.New(ctx, l, counts.Handler(), log).Close
			cfg.say(out, "metrics at http://%v/metrics", l.Addr())
			return nil
		}},
		{handover.Status, cfg.Status.Listen, func(p *adminPort, l net.Listener) error { return cfg.startStatus(ctx, p, l, all, counts, log, out) }},
	} {
		if one.addr == "" {
			continue
		}
		p, l, err := cfg.openAdmin(ctx, passed, one.service, one.addr, log)
		if err != nil {
			return ports, err
		}
		ports = append(ports, p)
		if err := one.start(p, l); err != nil {
			return ports, err
		}
	}
	return ports, nil
}

func closeAdmin(ports []*adminPort) {
	for _, p := range ports {
		p.close()
	}
}

// openAdmin opens a port, or takes it over from a predecessor. It has no limit for each address
// where all clients have this machine's.
func (cfg *Config) openAdmin(ctx context.Context, passed *handover.Inherited, service, addr string, log *slog.Logger) (p *adminPort, l net.Listener, err error) {
	p = &adminPort{service: service, accept: tcp.Server{Log: log}}
	if p.sockets, p.asked, err = cfg.listenTCP(ctx, passed, service, []string{addr}, tcp.Options{Sockets: 1}); err != nil {
		closeAll(p.sockets)
		return nil, nil, err
	}
	if !status.Loopback(p.sockets[0].Addr().String()) {
		p.accept.MaxConnsPerSource = adminConnsPerSource
	}
	if l, err = p.accept.Listener(p.sockets...); err != nil {
		return nil, nil, err
	}
	p.close = func() { _ = l.Close() }
	return p, l, nil
}

// keepHistory has the status page show the last hour and the failures of the process before, and
// has the next one get those of this.
func (cfg *Config) keepHistory(before *handover.Predecessor, next *handover.Restarter, log *slog.Logger) {
	board := cfg.status.board
	if board == nil {
		return
	}
	next.History = board.History
	if before != nil {
		before.History = func(text []byte) {
			if err := board.Remember(text); err != nil {
				log.Info("status page: it begins anew", "error", err)
			}
		}
	}
}

// startStatus serves the status page on a port.
func (cfg *Config) startStatus(ctx context.Context, p *adminPort, l net.Listener, all []service, counts *meter.Registry, log *slog.Logger, out io.Writer) error {
	if at := l.Addr().String(); cfg.status.users == nil && !status.Loopback(at) { // such as localhost in a strange /etc/hosts
		return failure.Mistake("status", "--status %s: that is %s, which others can reach; add --status-users FILE and --status-cert FILE, or listen at 127.0.0.1:PORT", cfg.Status.Listen, at)
	}
	c, scheme := status.Config{Hosts: cfg.Status.Hosts, TLS: cfg.status.tls, Profiles: cfg.Status.Profiles, Log: log}, "http"
	if users := cfg.status.users; users != nil {
		c.Login, scheme = status.NewLogin(users.dir, log), "https"
		go users.watch(ctx, "status", sayTo(log), func() {}) // requests that last look for themselves
	}
	if i := slices.IndexFunc(all, func(s service) bool { return s.name() == handover.Boot }); i >= 0 {
		cfg.status.board.Machines = all[i].(*bootService).Machines
	}
	page := status.Serve(ctx, l, cfg.status.board, c)
	p.close = page.Close
	counts.Gauge("status_watchers", "Browsers that get what changes of the status page.", func() float64 { return float64(page.Watchers()) })
	cfg.say(out, "status page at %s://%v/", scheme, l.Addr())
	return nil
}
