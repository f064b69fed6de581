package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/server/handover"
	"github.com/haul-project/haul/cmd/haul/internal/server/meter"
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

// Bounds of a connection of HTTP.
const (
	httpHeaderTime  = 10 * time.Second // until the header of a request is complete
	httpIdleTime    = 2 * time.Minute  // between requests
	httpHeaderBytes = 16 << 10
	httpClientFirst = 30 * time.Second // one that sends nothing for so long is never accepted
	mostHTTPConns   = 1 << 14
	httpStreams     = 64        // requests at a time on one connection of HTTP/2
	httpMemory      = 512 << 20 // bytes: buffers, open connections, and listings

	// filesPerRequest are the descriptors of a request: a file and its variants; or for
	// an upload its file, directory and mark, and the file of its conditions. One for
	// the user's directory is added.
	filesPerRequest = 4
)

// An httpService serves HTTP and HTTPS.
type httpService struct {
	cfg     *Config
	out     io.Writer
	log     *httpLog
	logger  *slog.Logger
	handler *web.Handler

	files    *publicFiles // for everybody; nil with users
	whole    *web.Account // for everybody, if all get the same
	small    localdir.SmallFiles
	roots    *userroots.Roots // of users; nil without
	sessions *userSessions    // nil without

	plain, secure httpPort
	ownCertDir    string           // "" without a certificate of the server's own
	expires       func() time.Time // of the certificate; nil without HTTPS

	retired chan time.Duration
	limit   time.Duration // for requests under way once there is a successor; set before the requests learn of the end
}

// httpOptions are those of the sockets.
var httpOptions = tcp.Options{ClientFirst: httpClientFirst}

// openHTTP opens what HTTP needs except its sockets. owners are as for SFTP. counts may be
// nil.
func (cfg *Config) openHTTP(owners []int, counts *meter.Registry, log *slog.Logger, out io.Writer) (_ *httpService, err error) {
	s := &httpService{cfg: cfg, out: out, logger: log, log: newHTTPLog(log, counts), retired: make(chan time.Duration, 1)}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	s.handler = &web.Handler{
		Account: s.account, Listing: cfg.HTTP.Listing, Index: cfg.HTTP.Index, Precompressed: cfg.HTTP.Precompressed, PlainPasswords: cfg.HTTP.PlainPasswords,
		Exempt: cfg.HTTP.Exempt, MaxUpload: cfg.Files.MaxUpload, Rate: cfg.HTTP.Rate, RatePerSource: cfg.HTTP.RatePerSource,
	}
	s.log.report = cfg.notifier.Report
	s.log.observe(s.handler)
	if cfg.HTTP.Users != "" {
		err = s.openUsers(owners)
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
		if s.secure.accept.TLS, err = s.openCertificate(); err != nil {
			return nil, inSetting("cert", err)
		}
	case anyAddr(cfg.HTTP.ListenTLS):
		if s.ownCertDir, err = stateDir("cert", "a certificate by --cert FILE"); err != nil {
			return nil, err
		}
	}
	for _, p := range s.ports() {
		p.open(s.watchForwarded(s.handler), log)
		p.failed = failedConns{RateLimited: linequeue.RateLimited{Log: s.log.Log, Message: p.scheme + ": handshakes failed"}, proxies: "--http-proxy"}
		p.accept.BadHandshake = p.badHandshake
	}
	s.plain.accept.FirstBytes, s.secure.accept.SplitALPN = s.plain.sniff, "h2"
	return s, nil
}

func (s *httpService) ports() []*httpPort { return []*httpPort{&s.plain, &s.secure} }

// openFiles opens the files for clients who do not log in.
func (s *httpService) openFiles() (err error) {
	if s.files, err = s.cfg.openPublicFiles(&s.small); err != nil {
		return err
	}
	if s.cfg.simple() {
		s.whole = &web.Account{Store: s.files.site.Roots[0].Files, Access: s.access()}
	}
	return nil
}

// openUsers loads the users file, and opens the directory of users.
func (s *httpService) openUsers(owners []int) (err error) {
	if s.roots, err = userroots.Open(s.cfg.Dirs[0], s.cfg.sources.Tree(s.cfg.Dirs[0]), userroots.Options{NoSync: s.cfg.NoFsync, Small: &s.small, Kept: s.cfg.notifier.Kept}); err != nil {
		return inSetting("dirs", err)
	}
	file, err := filepath.Abs(s.cfg.HTTP.Users)
	if err != nil {
		return err
	}
	dir, err := OpenUsersFile(file, owners...)
	if err != nil {
		return inSetting("http-auth", err)
	}
	if len(dir.Names()) == 0 {
		return failure.Mistake("http-auth", "the users file %s has no users, so nobody could log in; \"haul user add NAME --users %s\" adds one", file, file)
	}
	s.roots.Learn(dir)
	if err := s.roots.CheckSource(dir); err != nil {
		return inSetting("http-auth", err)
	}
	s.sessions = &userSessions{dir: dir, file: file}
	s.handler.Users = dir
	return nil
}

func (s *httpService) secrets() (all []userroots.Secret) {
	if s.cfg.HTTP.Cert != "" {
		flag := "--key"
		if s.cfg.HTTP.Key == "" {
			flag = "--cert"
		}
		all = append(all, userroots.Secret{Flag: flag, What: "the key of the certificate", Path: s.cfg.HTTP.pair().Key})
	}
	if s.ownCertDir != "" {
		all = append(all, userroots.Secret{Flag: "--https", What: "the key of the server's own certificate", Path: certs.OwnFile(s.ownCertDir), Instead: "; --cert FILE names another certificate"})
	}
	if s.sessions != nil {
		all = append(all, userroots.Secret{Flag: "--http-auth", What: "the users file", Path: s.sessions.file})
	}
	return all
}

func (s *httpService) keepSecret(all []userroots.Secret) error {
	if s.files != nil {
		return s.files.keepSecret(all)
	}
	return s.roots.KeepSecret(s.sessions.dir, all)
}

// account is the handler's hook for the account of a client.
func (s *httpService) account(_ context.Context, v web.Visitor) (*web.Account, error) {
	if s.sessions == nil {
		return s.anybody(v), nil
	}
	if v.Login == nil { // cannot be: see Handler.Users
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
	life, gone, err := s.sessions.enter(v.Login, peerText(v.Peer))
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

func (s *httpService) close() {
	for _, p := range s.ports() {
		closeAll(p.sockets)
		p.failed.Flush()
	}
	s.log.away.Flush()
	s.log.Close()
	if s.files != nil {
		s.files.close()
	}
	if s.roots != nil {
		s.roots.Close()
	}
}

// listen opens the sockets, unless systemd or a predecessor has done so.
func (s *httpService) listen(ctx context.Context, passed *handover.Inherited) (err error) {
	s.fitDescriptors(ownprocess.OpenFiles())
	if s.ownCertDir != "" {
		if err := s.ownCertificate(); err != nil {
			return err
		}
	}
	for _, p := range s.ports() {
		p.accept.Proxies, p.accept.UnixProxies = s.cfg.HTTP.Proxies, s.cfg.HTTP.UnixProxies
		p.accept.HandshakeTimeout, p.accept.Log = httpHeaderTime, s.logger
		s.cfg.restrict(&p.accept, &s.log.away)
		asked := p.asked
		p.sockets, p.asked, err = s.cfg.listenTCP(ctx, passed, p.scheme, asked, httpOptions)
		if err != nil && p == &s.plain && s.cfg.HTTP.FallBack {
			if other := s.cfg.fallBack(s.out, p.scheme, asked, err, rivalAt(passed, "tcp", asked...)); other != nil {
				p.sockets, p.asked, err = s.cfg.listenTCP(ctx, passed, p.scheme, other, httpOptions)
			}
		}
		if err != nil {
			return err
		}
	}
	if s.cfg.HTTP.UnixProxies {
		return s.plain.failed.needUnixSocket(handover.HTTP, slices.Concat(s.plain.sockets, s.secure.sockets))
	}
	return nil
}

// fitDescriptors bounds connections and requests by the descriptors.
func (s *httpService) fitDescriptors(limit int) {
	each := filesPerRequest
	if s.sessions != nil {
		each += s.roots.FilesPerVisit(s.sessions.dir)
	}
	var conns int
	conns, s.small.Max, s.handler.MaxOpen = s.cfg.httpBounds(limit, each)
	if most := s.handler.MaxOpen; most < web.DefaultMaxOpen {
		s.log.fewFiles = fmt.Sprintf("open-file limit %d allows %d requests at once, seven eighths of them of one address; raise ulimit -n (LimitNOFILE=) for more", limit, most)
		if most < fewFiles {
			s.logger.Info("HTTP: " + s.log.fewFiles)
		}
	}
	perSource := min(cmp.Or(s.cfg.HTTP.MaxConnsPerSource, max(1, conns/2)), conns)
	for _, p := range s.ports() {
		p.accept.MaxConns, p.accept.MaxConnsPerSource = conns, perSource
	}
}

// httpBounds returns how many connections each port may have, how many small files are kept
// open, and how many requests with open files all ports have together, for HTTP's share of
// the descriptors. A request takes each of them. A connection of HTTP/2 has many requests,
// so the two are bounded separately.
func (cfg *Config) httpBounds(limit, each int) (conns, small, open int) {
	share := cfg.shareOf(limit)
	share -= min(spareFiles, share/2)
	small = min(smallFiles, share/8)
	share -= small
	ports := 0
	for _, addrs := range [][]string{cfg.HTTP.Listen, cfg.HTTP.ListenTLS} {
		if anyAddr(addrs) {
			ports++
		}
	}
	conns = max(1, min(mostHTTPConns, share/3/ports))
	return conns, small, max(1, min(web.DefaultMaxOpen, (share-ports*conns)/each))
}

// existing returns the paths that exist.
func existing(paths []string) (there []string) {
	for _, path := range paths {
		if _, err := os.Stat(path); err == nil {
			there = append(there, path)
		}
	}
	return there
}

// addrText returns an address as text, or "".
func addrText(a net.Addr) string {
	if a == nil {
		return ""
	}
	return a.String()
}

func (s *httpService) String() string {
	var all []string
	for _, p := range s.ports() {
		for _, socket := range p.sockets {
			all = append(all, strings.ToUpper(p.scheme)+" on "+socket.Addr().String())
		}
	}
	return strings.Join(all, ", ")
}

// announce prints the server's addresses, and who may log in.
func (s *httpService) announce() {
	said := false
	for _, p := range s.ports() {
		for i, socket := range p.sockets {
			a, err := netip.ParseAddrPort(socket.Addr().String())
			if err != nil {
				s.cfg.say(s.out, "serving %s on the unix socket %s, by %s", s.cfg.Dirs[0], socket.Addr(), p.scheme)
				continue
			}
			shown, host := shownAddr(a, p.asked[i])
			s.cfg.say(s.out, "serving %s on %s://%s", s.cfg.Dirs[0], p.scheme, shown)
			at := netip.AddrPortFrom(host, a.Port())
			switch {
			case said:
			case s.cfg.HTTP.Listing:
				s.cfg.say(s.out, "open in a browser: %s://%s/", p.scheme, at)
			case s.sessions == nil:
				s.cfg.say(s.out, "try: curl -O %s://%s/FILE (directories are not listed; --listing shows them)", p.scheme, at)
			}
			said = true
		}
	}
	if s.sessions != nil {
		s.cfg.say(s.out, "HTTP: %s, from %s", console.Plural(int64(len(s.sessions.dir.Names())), "user"), s.sessions.file)
	}
}

func (s *httpService) sandboxPaths(c *privilege.Confinement) {
	if s.cfg.HTTP.Cert != "" {
		c.Read = append(c.Read, s.cfg.HTTP.pair().Dirs()...)
	}
	if s.files != nil {
		s.files.sandboxPaths(c)
		return
	}
	c.Trees = append(c.Trees, s.roots.MainDir()...)
	c.Trees = append(c.Trees, existing(s.roots.Outside(s.sessions.dir))...)
	c.Read = append(c.Read, s.sessions.reads()...)
}

// startBackground starts background work.
func (s *httpService) startBackground(ctx context.Context) {
	if s.files != nil {
		go func() { // a disk that hangs delays nobody
			warnUnwritable("http", s.files.writes, s.log.Say)
			s.files.sweep(ctx, s.logger)
		}()
		return
	}
	go s.sessions.watch(ctx, "http", s.log.Say, func() {
		s.roots.Learn(s.sessions.dir)
		s.sessions.endRevoked(func(*session, string) {}) // each request is logged when it ends
	})
	go sweepOften(ctx, s.log.Say, func() (int, error) { return s.roots.Sweep(ctx, s.roots.Outside(s.sessions.dir)) })
}

func (s *httpService) sockets() (all []handover.Socket, err error) {
	for _, p := range s.ports() {
		some, err := handover.FromTCP(p.scheme, p.sockets, p.asked)
		if all = append(all, some...); err != nil {
			return all, err
		}
	}
	return all, nil
}

func (s *httpService) retire(limit time.Duration) { s.retired <- limit }

func (s *httpService) name() string { return handover.HTTP }

// serve serves until ctx ends. If one port fails, both end.
func (s *httpService) serve(server context.Context) error {
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

func (s *httpService) alive() bool {
	_ = s.handler.Counters()
	return true
}

// registerMetrics adds what a server of HTTP counts.
func (s *httpService) registerMetrics(counts *meter.Registry) {
	for _, c := range []struct {
		name, help string
		value      func(web.Counters) int64
	}{
		{"http_requests_total", "Requests answered.", func(c web.Counters) int64 { return c.Requests }},
		{"http_refused_total", "Requests answered by 4xx.", func(c web.Counters) int64 { return c.Refused }},
		{"http_failed_total", "Requests answered by 5xx, or not to the end.", func(c web.Counters) int64 { return c.Failed }},
		{"http_logins_total", "Passwords that were right, but for those known again.", func(c web.Counters) int64 { return c.Logins }},
		{"http_login_failures_total", "Passwords that were wrong.", func(c web.Counters) int64 { return c.Failures }},
	} {
		counts.Counter(c.name, c.help, func() int64 { return c.value(s.handler.Counters()) })
	}
	counts.Gauge("http_requests", "Requests under way.", func() float64 { return float64(s.handler.Counters().Active) })
	for _, p := range s.ports() {
		if len(p.sockets) > 0 {
			counts.Connections(meter.Protocol(p.scheme), connServer(&p.accept))
		}
	}
	if s.expires != nil {
		counts.Gauge("certificate_expiry_timestamp_seconds", "When the certificate of HTTPS expires, in seconds since 1970.",
			func() float64 { return float64(s.expires().Unix()) })
	}
	counts.Counter("http_log_lines_lost_total", "Lines on HTTP for which the log was too slow.", s.log.Lost)
}
