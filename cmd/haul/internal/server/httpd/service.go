// Package httpd is the HTTP and HTTPS service of "haul serve".
package httpd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/server/handover"
	"github.com/haul-project/haul/cmd/haul/internal/server/httpend"
	"github.com/haul-project/haul/cmd/haul/internal/server/logins"
	"github.com/haul-project/haul/cmd/haul/internal/server/ports"
	"github.com/haul-project/haul/cmd/haul/internal/server/publicfiles"
	"github.com/haul-project/haul/cmd/haul/internal/server/service"
	"github.com/haul-project/haul/cmd/haul/internal/server/settings"
	"github.com/haul-project/haul/cmd/haul/internal/server/site"
	"github.com/haul-project/haul/cmd/haul/internal/server/userroots"
	"github.com/haul-project/haul/cmd/haul/internal/system/ownprocess"
	"github.com/haul-project/haul/cmd/haul/internal/system/privilege"
	"github.com/haul-project/haul/internal/certs"
	"github.com/haul-project/haul/internal/linequeue"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/localdir"
	"github.com/haul-project/haul/tcp"
	"github.com/haul-project/haul/users"
	"github.com/haul-project/haul/web"
)

// A Service serves HTTP and HTTPS.
type Service struct {
	cfg     *settings.Config
	env     *service.Env
	log     *log
	handler *web.Handler

	files    *publicfiles.Files // serves clients that do not log in; nil if clients have to log in
	whole    *web.Account       // the account of all clients that do not log in, if they share one; otherwise nil
	small    localdir.SmallFiles
	roots    *userroots.Roots // roots of users; nil if there are no users
	sessions *logins.Sessions // the sessions of users; nil if there are no users

	plain, secure port
	hosts         []string         // names of this server: see hostsOf
	certDir       string           // directory of the self-signed certificate; "" if the server does not use one
	expires       func() time.Time // when the certificate expires; nil without HTTPS

	retired chan time.Duration
	// limit is how long requests may continue once there is a successor. It is set before requests
	// notice the shutdown.
	limit time.Duration
}

// socketOptions are the options of the listening sockets.
var socketOptions = tcp.Options{ClientFirst: clientFirst}

// New opens everything that HTTP needs except its sockets.
func New(cfg *settings.Config, env *service.Env) (_ *Service, err error) {
	s := &Service{cfg: cfg, env: env, log: newLog(env.Log, env.Counts), retired: make(chan time.Duration, 1)}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	s.handler = &web.Handler{
		Account: s.account, Listing: cfg.HTTP.Listing, Index: cfg.HTTP.Index, Precompressed: cfg.HTTP.Precompressed, PlainPasswords: cfg.HTTP.PlainPasswords,
		Exempt: cfg.HTTP.Exempt, MaxUpload: cfg.Files.MaxUpload, Rate: cfg.HTTP.Rate, RatePerSource: cfg.HTTP.RatePerSource,
	}
	s.log.report = env.Notifier.Report
	s.log.observe(s.handler)
	if cfg.HTTP.Users != "" {
		err = s.openUsers()
	} else {
		err = s.openFiles()
	}
	if err != nil {
		return nil, err
	}
	s.plain.scheme, s.plain.asked = handover.HTTP, cfg.HTTP.Listen
	s.secure.scheme, s.secure.asked = handover.HTTPS, cfg.HTTP.ListenTLS
	switch {
	case cfg.HTTP.Cert != "":
		if s.secure.accept.TLS, s.expires, err = openCertificate(&cfg.HTTP, s.log.Say); err != nil {
			return nil, failure.InSetting("cert", err)
		}
	case settings.AnyAddr(cfg.HTTP.ListenTLS):
		if s.certDir, err = settings.StateDir("cert", "a certificate", "FILE"); err != nil {
			return nil, err
		}
	}
	s.hosts = hostsOf(cfg.HTTP.Hosts, slices.Concat(cfg.HTTP.Listen, cfg.HTTP.ListenTLS)...)
	var handler http.Handler = s.handler
	if len(cfg.HTTP.Proxies) == 0 && !cfg.HTTP.UnixProxies {
		handler = watchForwarded(handler, s.log.Say)
	}
	for _, p := range s.ports() {
		p.open(s.checkHosts(p, handler), errorWriter{s.log})
		p.failed = ports.FailedConns{RateLimited: linequeue.RateLimited{Log: s.log.Log, Message: p.scheme + ": handshakes failed"}, Proxies: "http-proxy"}
		p.accept.BadHandshake = p.badHandshake
	}
	s.plain.accept.FirstBytes, s.secure.accept.SplitALPN = s.plain.sniff, "h2"
	return s, nil
}

func (s *Service) ports() []*port { return []*port{&s.plain, &s.secure} }

// openFiles opens the files for clients that do not log in.
func (s *Service) openFiles() (err error) {
	if s.files, err = publicfiles.Open(s.cfg, s.env, &s.small); err != nil {
		return err
	}
	if s.cfg.Simple() {
		s.whole = &web.Account{Store: s.files.Site.Roots[0].Files, Access: accessOf(s.cfg.Files.Upload)}
	}
	return nil
}

// openUsers loads the users file, and opens the directory of the users.
func (s *Service) openUsers() (err error) {
	if s.roots, err = userroots.Open(s.cfg.Dirs[0], s.env.Sources.Tree(s.cfg.Dirs[0]), userroots.Options{NoSync: s.cfg.NoFsync, Small: &s.small, Kept: s.env.Notifier.Kept}); err != nil {
		return failure.InSetting("dirs", err)
	}
	file, err := filepath.Abs(s.cfg.HTTP.Users)
	if err != nil {
		return err
	}
	dir, err := logins.OpenUsersFile(file, s.env.Owners...)
	if err != nil {
		return failure.InSetting("http-auth", err)
	}
	if len(dir.Names()) == 0 {
		return failure.Mistake("http-auth", "the users file %s has no users, so nobody could log in; \"haul user add NAME --users %s\" adds one", file, file)
	}
	s.roots.Learn(dir)
	if err := s.roots.CheckSource(dir); err != nil {
		return failure.InSetting("http-auth", err)
	}
	s.sessions = &logins.Sessions{Users: dir, File: file}
	s.handler.Users = dir
	return nil
}

// Secrets returns the certificate's key and the users file.
func (s *Service) Secrets() (all []userroots.Secret) {
	if s.cfg.HTTP.Cert != "" {
		flag := failure.Flag("key")
		if s.cfg.HTTP.Key == "" {
			flag = "cert"
		}
		all = append(all, userroots.Secret{Flag: flag, What: "the key of the certificate", Path: s.cfg.HTTP.Pair().Key})
	}
	if s.certDir != "" {
		all = append(all, userroots.Secret{Flag: "https", What: "the key of the server's own certificate", Path: certs.OwnFile(s.certDir), Instead: failure.Text("%s FILE names another certificate", failure.Flag("cert"))})
	}
	if s.sessions != nil {
		all = append(all, userroots.Secret{Flag: "http-auth", What: "the users file", Path: s.sessions.File})
	}
	return all
}

// KeepSecret returns an error if a served directory contains a secret.
func (s *Service) KeepSecret(all []userroots.Secret) error {
	if s.files != nil {
		return s.files.KeepSecret(all)
	}
	return s.roots.KeepSecret(s.sessions.Users, all)
}

// account returns the account of a client. The web.Handler calls it.
func (s *Service) account(ctx context.Context, v web.Visitor) (*web.Account, error) {
	if host, ok := ctx.Value(strangeHostKey{}).(strangeHost); ok {
		return nil, host
	}
	if s.sessions == nil {
		return s.anybody(v), nil
	}
	if v.Login == nil { // impossible: see Handler.Users
		return nil, fs.ErrPermission
	}
	u := v.Login.User
	files, created, leave, err := s.roots.Enter(u)
	if created {
		s.log.Say(slog.LevelInfo, "http: created a user's directory", slog.String("user", u.Name), slog.String("root", u.Root))
	}
	if err != nil {
		return nil, fmt.Errorf("root of %s: %w", u.Name, err)
	}
	life, gone, err := s.sessions.Enter(v.Login, ports.PeerText(v.Peer))
	if err != nil {
		leave()
		return nil, err
	}
	if v.Login.Access != users.Full {
		files = store.Finished(files)
	}
	return &web.Account{
		User: u.Name, Store: files, Access: web.AccessOf(v.Login.Access), Rate: u.Limit,
		Life: life,
		Close: func() {
			gone()
			leave()
		},
	}, nil
}

// anybody returns the account of a client that does not have to log in.
func (s *Service) anybody(v web.Visitor) *web.Account {
	if s.whole != nil {
		return s.whole
	}
	var local netip.AddrPort
	if v.Local != nil {
		local, _ = netip.ParseAddrPort(v.Local.String())
	}
	return &web.Account{Store: siteFiles{s.files.Site, site.Client{Peer: v.Peer, Local: local}}, Access: accessOf(s.cfg.Files.Upload)}
}

// Close closes the sockets, the log and the files.
func (s *Service) Close() {
	for _, p := range s.ports() {
		ports.CloseAll(p.sockets)
		p.failed.Flush()
	}
	s.log.few.Flush()
	s.log.away.Flush()
	s.log.Close()
	if s.files != nil {
		s.files.Close()
	}
	if s.roots != nil {
		s.roots.Close()
	}
}

// Listen opens the sockets, unless systemd or a predecessor has opened them.
func (s *Service) Listen(ctx context.Context, passed *handover.Inherited) (err error) {
	s.fitDescriptors(ownprocess.OpenFiles())
	if s.certDir != "" {
		if s.secure.accept.TLS, s.expires, err = ownCertificate(s.certDir, s.env.Owners, s.cfg.HTTP.ListenTLS, s.env.Say); err != nil {
			return err
		}
	}
	for _, p := range s.ports() {
		p.accept.Proxies, p.accept.UnixProxies = s.cfg.HTTP.Proxies, s.cfg.HTTP.UnixProxies
		p.accept.HandshakeTimeout, p.accept.Log = headerTime, s.env.Log
		s.log.away.Restrict(&p.accept, s.cfg)
		asked := p.asked
		p.sockets, p.asked, err = ports.Listen(ctx, s.cfg, passed, p.scheme, asked, socketOptions)
		if err != nil && p == &s.plain {
			other := ports.Fallback{Name: p.scheme, Asked: asked, Other: s.cfg.HTTP.Fallback, Rival: ports.RivalAt(passed, "tcp", asked...)}.After(err, s.env)
			if other != nil {
				p.sockets, p.asked, err = ports.Listen(ctx, s.cfg, passed, p.scheme, other, socketOptions)
			}
		}
		if err != nil {
			return err
		}
		for _, socket := range p.sockets {
			if at := socket.Addr(); httpend.Loopback(at) {
				p.loopback = append(p.loopback, netip.MustParseAddrPort(at.String()))
			}
		}
	}
	if s.cfg.HTTP.UnixProxies {
		return s.plain.failed.NeedUnixSocket(handover.HTTP, slices.Concat(s.plain.sockets, s.secure.sockets))
	}
	return nil
}

// fitDescriptors limits connections and requests, so that there are enough descriptors for all of
// them.
func (s *Service) fitDescriptors(limit int) {
	each := filesPerRequest
	if s.sessions != nil {
		each += s.roots.FilesPerVisit(s.sessions.Users)
	}
	var conns int
	conns, s.small.Max, s.handler.MaxOpen = bounds(s.cfg, limit, each)
	if most := s.handler.MaxOpen; most < web.DefaultMaxOpen {
		s.log.fewFiles = fmt.Sprintf("open-file limit %d allows %d requests at once, seven eighths of them of one address; raise ulimit -n (LimitNOFILE=) for more", limit, most)
		if most < service.FewFiles {
			s.env.Log.Info("HTTP: " + s.log.fewFiles)
		}
	}
	perSource := min(cmp.Or(s.cfg.HTTP.MaxConnsPerSource, max(1, conns/2)), conns)
	for _, p := range s.ports() {
		p.accept.MaxConns, p.accept.MaxConnsPerSource = conns, perSource
	}
}

// String describes the service for the service manager.
func (s *Service) String() string {
	var all []string
	for _, p := range s.ports() {
		for _, socket := range p.sockets {
			all = append(all, strings.ToUpper(p.scheme)+" on "+socket.Addr().String())
		}
	}
	return strings.Join(all, ", ")
}

// Announce prints the server's addresses, and which users may log in.
func (s *Service) Announce() {
	said := false
	for _, p := range s.ports() {
		for i, socket := range p.sockets {
			a, err := netip.ParseAddrPort(socket.Addr().String())
			if err != nil {
				s.env.Say("serving %s on the unix socket %s, by %s", s.cfg.Dirs[0], socket.Addr(), p.scheme)
				continue
			}
			shown, host := ports.ShownAddr(a, p.asked[i])
			s.env.Say("serving %s on %s://%s", s.cfg.Dirs[0], p.scheme, shown)
			at := netip.AddrPortFrom(host, a.Port())
			switch {
			case said:
			case s.cfg.HTTP.Listing:
				s.env.Say("open in a browser: %s://%s/", p.scheme, at)
			case s.sessions == nil:
				s.env.Say("try: curl -O %s://%s/FILE (directories are not listed; --listing shows them)", p.scheme, at)
			}
			said = true
		}
	}
	if s.sessions != nil {
		s.env.Say("HTTP: %s, from %s", console.Plural(int64(len(s.sessions.Users.Names())), "user"), s.sessions.File)
	}
}

// Addrs returns the addresses that serve HTTP without TLS. Before Listen there are no addresses.
func (s *Service) Addrs() (all []netip.AddrPort) {
	for _, one := range s.plain.sockets {
		at, _ := netip.ParseAddrPort(one.Addr().String())
		all = append(all, at)
	}
	return all
}

// SandboxPaths adds the served directories, and the files that are read again when they change.
func (s *Service) SandboxPaths(c *privilege.Confinement) {
	if s.cfg.HTTP.Cert != "" {
		c.Read = append(c.Read, s.cfg.HTTP.Pair().Dirs()...)
	}
	if s.files != nil {
		s.files.SandboxPaths(c)
		return
	}
	c.Trees = append(c.Trees, s.roots.MainDir()...)
	c.Trees = append(c.Trees, service.Existing(s.roots.Outside(s.sessions.Users))...)
	c.Read = append(c.Read, s.sessions.Reads()...)
}

// StartBackground logs a certificate that the process cannot read as its final user, and starts to
// look after the upload directories and the users file.
func (s *Service) StartBackground(ctx context.Context) {
	service.WarnUnreadable("https", s.cfg.HTTP.Pair(), s.env.Log)
	if s.files != nil {
		go s.files.Maintain(ctx, handover.HTTP, s.log.Say) // in the background, because a disk may hang
		return
	}
	go s.sessions.Watch(ctx, "http", s.log.Say, func() {
		s.roots.Learn(s.sessions.Users)
		s.sessions.EndRevoked(func(*logins.Session, string) {}) // each request is logged when it ends
	})
	go service.SweepOften(ctx, s.log.Say, func() (int, error) { return s.roots.Sweep(ctx, s.roots.Outside(s.sessions.Users)) })
}

// Sockets returns duplicates of the sockets, for a successor.
func (s *Service) Sockets() (all []handover.Socket, err error) {
	for _, p := range s.ports() {
		some, err := handover.FromTCP(p.scheme, p.sockets, p.asked)
		if all = append(all, some...); err != nil {
			return all, err
		}
	}
	return all, nil
}

// Retire makes Serve return once the requests under way have ended, or after limit.
func (s *Service) Retire(limit time.Duration) { s.retired <- limit }

// Name returns the name of the service in a handover.
func (s *Service) Name() string { return handover.HTTP }

// Serve serves until ctx ends. If one port fails, Serve shuts down the other port too.
func (s *Service) Serve(server context.Context) error {
	ctx, end := context.WithCancel(server)
	defer end()
	var errs [2]error
	var all sync.WaitGroup
	for i, p := range s.ports() {
		if len(p.sockets) == 0 {
			continue
		}
		all.Go(func() {
			defer end()
			errs[i] = s.servePort(server, ctx, p)
		})
	}
	all.Go(func() {
		select {
		case s.limit = <-s.retired:
			end()
		case <-ctx.Done():
		}
	})
	all.Wait()
	return errors.Join(errs[:]...)
}

// servePort serves one port. When ctx ends, requests under way may continue for the grace period.
// Once a successor has taken over, they may continue for s.limit if that is longer than the grace
// period. If the context `server` ends meanwhile, they may continue only for the grace period from
// then on.
func (s *Service) servePort(server, ctx context.Context, p *port) error {
	l, err := p.accept.Listener(p.sockets...)
	if err != nil {
		return err
	}
	// Even after it is closed, the listener returns the connections that it accepted before.
	stop := context.AfterFunc(ctx, func() {
		p.ending.Store(true)
		_ = l.Close()
	})
	err = p.serve(l)
	if stop() {
		p.close()
		return fmt.Errorf("%s: %w", p.scheme, err)
	}
	patient, cancel := context.WithTimeout(context.WithoutCancel(ctx), max(s.cfg.Grace, s.limit))
	defer cancel()
	defer context.AfterFunc(server, func() { time.AfterFunc(s.cfg.Grace, cancel) })()
	p.drain(patient, l)
	return nil
}

// Alive acquires a lock that each request needs. If nobody releases the lock, Alive never returns,
// and the watchdog ends the process.
func (s *Service) Alive() bool {
	_ = s.handler.Counters()
	return true
}
