// Package sftpd is the SFTP service of "haul serve".
package sftpd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/server/handover"
	"github.com/haul-project/haul/cmd/haul/internal/server/logins"
	"github.com/haul-project/haul/cmd/haul/internal/server/meter"
	"github.com/haul-project/haul/cmd/haul/internal/server/ports"
	"github.com/haul-project/haul/cmd/haul/internal/server/service"
	"github.com/haul-project/haul/cmd/haul/internal/server/settings"
	"github.com/haul-project/haul/cmd/haul/internal/server/userroots"
	"github.com/haul-project/haul/cmd/haul/internal/system/ownprocess"
	"github.com/haul-project/haul/cmd/haul/internal/system/privilege"
	"github.com/haul-project/haul/sftp"
	"github.com/haul-project/haul/tcp"
	"github.com/haul-project/haul/users"
)

// maxRootsLogged is how many roots that cannot be opened are logged, one line each.
const maxRootsLogged = 20

// sharedDirs are directories that hold many unrelated files.
var sharedDirs = []string{"/", "/etc", "/home", "/root", "/tmp", "/usr", "/var"}

// A Service serves SFTP.
type Service struct {
	cfg      *settings.Config
	env      *service.Env
	srv      *sftp.Server
	sessions *logins.Sessions
	oneTime  *oneTimeUser // the only user, if there is no users file; otherwise nil
	roots    *userroots.Roots
	keys     []users.HostKey
	hostKeys string // the directory of the host keys, or settings.NoHostKeys
	log      *log
	// config is the part of the configuration that is the same for all connections, without the
	// authentication.
	config  ssh.ServerConfig
	accept  tcp.Server
	at      []*tcp.Socket
	asked   []string // the configured address of each socket in `at`; "" for a socket from systemd
	retired chan time.Duration
}

// New opens everything that SFTP needs except its sockets.
func New(cfg *settings.Config, env *service.Env) (_ *Service, err error) {
	s := &Service{cfg: cfg, env: env, retired: make(chan time.Duration, 1)}
	if s.roots, err = userroots.Open(cfg.Dirs[0], env.Sources.Tree(cfg.Dirs[0]), userroots.Options{SpecialBits: cfg.SFTP.SpecialBits, NoSync: cfg.NoFsync, Kept: env.Notifier.Kept}); err != nil {
		return nil, failure.InSetting("dirs", err)
	}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	if s.sessions, s.oneTime, err = openSessions(cfg, env.Owners); err != nil {
		return nil, failure.InSetting("users", err)
	}
	s.roots.Learn(s.sessions.Users)
	if err := s.roots.CheckSource(s.sessions.Users); err != nil {
		return nil, failure.InSetting("users", err)
	}
	if s.hostKeys = cfg.SFTP.HostKeys; s.hostKeys == "" {
		if s.hostKeys, err = settings.StateDir("host-keys", "a directory for the host keys", "DIR"); err != nil {
			return nil, err
		}
	}
	s.log = newLog(env.Log, env.Counts)
	s.log.report = env.Notifier.Report
	s.srv = &sftp.Server{
		SSH: s.configure, Login: s.login,
		Grace: cfg.Grace, Rate: cfg.SFTP.Rate, MaxConns: cfg.SFTP.MaxConns, MaxConnsPerSource: cfg.SFTP.MaxConnsPerSource,
		// A proxy's own connections are health checks, so they are exempt too.
		Exempt: slices.Concat(cfg.SFTP.Exempt, cfg.SFTP.Proxies),
	}
	s.srv.Prepare() // reads system settings, which a confined process cannot read
	s.log.observe(s.srv)
	return s, nil
}

// openKeys loads the host keys. It creates a key if the directory has no key yet.
func (s *Service) openKeys() (err error) {
	if s.hostKeys == settings.NoHostKeys {
		key, err := users.OneTimeHostKey()
		if err != nil {
			return failure.Local.Wrap(err)
		}
		s.keys = []users.HostKey{key}
	} else if s.keys, err = users.HostKeys(s.hostKeys, s.env.Owners...); err != nil {
		if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
			err = failure.Text("%w; %s DIR names a directory that this user may write to", err, failure.Flag("host-keys"))
		}
		return failure.InSetting("host-keys", failure.Local.Wrap(err))
	}
	for _, k := range s.keys {
		s.config.AddHostKey(k.Signer)
	}
	return nil
}

// Secrets returns the host keys, the users file and the files that it names.
func (s *Service) Secrets() (all []userroots.Secret) {
	if s.hostKeys != settings.NoHostKeys {
		all = append(all, userroots.Secret{Flag: "host-keys", What: "the server's host keys", Path: s.hostKeys, Instead: failure.Text("%s none uses a key for this run only, in memory", failure.Flag("host-keys"))})
	}
	if s.sessions.File != "" {
		all = append(all, userroots.Secret{Flag: "users", What: "the users file", Path: s.sessions.File})
	}
	for _, list := range s.sessions.Users.Lists() {
		all = append(all, userroots.Secret{Flag: "users", What: "the list " + list + " that the users file names", Path: list})
	}
	return all
}

// KeepSecret returns an error if the directory of a user contains a secret.
func (s *Service) KeepSecret(all []userroots.Secret) error {
	return s.roots.KeepSecret(s.sessions.Users, all)
}

// Close closes the sockets, the log and the directories of users.
func (s *Service) Close() {
	ports.CloseAll(s.at)
	if s.log != nil {
		s.log.few.Flush()
		s.log.away.Flush()
		s.log.locked.Flush()
		s.log.badConns.Flush()
		s.log.Close()
	}
	s.roots.Close()
}

// configure returns the SSH configuration for a new connection. The sftp.Server calls it.
func (s *Service) configure(_ context.Context, c net.Conn) (*ssh.ServerConfig, error) {
	config := s.config
	s.sessions.Users.Configure(&config, users.Options{Audit: s.log.begin(c)})
	return &config, nil
}

// login returns the account of a user who has authenticated. The sftp.Server calls it.
func (s *Service) login(_ context.Context, c *ssh.ServerConn) (*sftp.Account, error) {
	l, ok := users.LoginOf(c.Permissions)
	if !ok {
		return nil, errors.New("nobody has logged in") // impossible: see users.Directory.Configure
	}
	a, err := s.account(c, l)
	if err != nil {
		s.log.failed(c, l.User.Name, err)
		return nil, err
	}
	s.log.accepted(c, l)
	return a, nil
}

// account opens the files of a user, and returns the user's account.
func (s *Service) account(c *ssh.ServerConn, l *users.Login) (*sftp.Account, error) {
	files, created, leave, err := s.roots.Enter(l.User)
	if created {
		s.log.Say(slog.LevelInfo, "sftp: created a user's directory", slog.String("user", l.User.Name), slog.String("root", l.User.Root))
	}
	if err != nil {
		return nil, err
	}
	life, gone, err := s.sessions.Enter(l, ports.Peer(c.RemoteAddr()))
	if err != nil {
		leave()
		return nil, err
	}
	return &sftp.Account{
		User: l.User.Name, Tree: files, Dir: l.Dir, Access: l.Access, Rate: l.User.Limit, Hidden: !s.cfg.SFTP.InPlace,
		CreateOnly: s.oneTime.mayOnlyCreate(),
		Life:       life,
		Close: func() {
			gone()
			leave()
		},
	}, nil
}

// Listen loads the host keys and opens the sockets, unless systemd or a predecessor has opened
// them.
func (s *Service) Listen(ctx context.Context, passed *handover.Inherited) (err error) {
	if err := s.openKeys(); err != nil {
		return err
	}
	fitDescriptors(s.srv, service.Share(s.cfg, ownprocess.OpenFiles()), s.roots.FilesPerVisit(s.sessions.Users), s.log.Logger)
	s.accept.Log = s.log.Logger
	s.expectProxies()
	s.at, s.asked, err = ports.Listen(ctx, s.cfg, passed, handover.SFTP, s.cfg.SFTP.Listen, tcp.Options{})
	if err == nil && s.cfg.SFTP.UnixProxies {
		err = s.log.badConns.NeedUnixSocket(handover.SFTP, s.at)
	}
	return err
}

// expectProxies configures the servers for PROXY headers.
func (s *Service) expectProxies() {
	s.accept.Proxies, s.accept.UnixProxies = s.cfg.SFTP.Proxies, s.cfg.SFTP.UnixProxies
	s.accept.BadHandshake = func(c *tcp.Conn, err error) { s.log.badConns.Handshake(c, err) }
	s.accept.FirstBytes = func(c *tcp.Conn, begin []byte) {
		var head [5]byte
		if copy(head[:], begin); ports.LooksLikeProxy(head) {
			s.log.badConns.Add(slog.LevelWarn, ports.HeaderAhead, c, errNotSSH)
		}
	}
	if len(s.accept.Proxies) > 0 || s.accept.UnixProxies {
		s.accept.MaxConns = 2 * s.srv.MaxConns // half of them may still wait for their PROXY header
	}
}

var errNotSSH = errors.New("the first bytes are not those of SSH")

func (s *Service) addrs() (addrs []net.Addr) {
	for _, socket := range s.at {
		addrs = append(addrs, socket.Addr())
	}
	return addrs
}

// String describes the service for the service manager.
func (s *Service) String() string { return fmt.Sprintf("SFTP on %v", s.addrs()) }

// RegisterMetrics registers the counters of the service.
func (s *Service) RegisterMetrics(counts *meter.Registry) {
	registerMetrics(counts, s.srv, &s.accept, s.log.Lost)
}

// Announce prints the server's addresses, its host keys, and which users may log in.
func (s *Service) Announce() {
	say := s.env.Say
	var at netip.AddrPort
	for i, addr := range s.addrs() {
		a, err := netip.ParseAddrPort(addr.String())
		if err != nil {
			say("serving %s on the unix socket %s, by sftp", s.cfg.Dirs[0], addr)
			continue
		}
		shown, host := ports.ShownAddr(a, s.asked[i])
		say("serving %s on sftp://%s", s.cfg.Dirs[0], shown)
		if !at.IsValid() {
			at = netip.AddrPortFrom(host, a.Port())
		}
	}
	for _, k := range s.keys {
		if _, ok := k.Signer.PublicKey().(*ssh.Certificate); ok {
			continue // the plain key of the certificate is in the list as well
		}
		say("host key %s %s", k.Signer.PublicKey().Type(), k.Fingerprint())
		switch {
		case k.File == "":
			say("that key is for this run only")
		case k.Created:
			say("that key is new, and stored in %s", k.File)
		}
	}
	if s.sessions.File != "" {
		say("%s, from %s", console.Plural(int64(len(s.sessions.Users.Names())), "user"), s.sessions.File)
		s.warn()
		return
	}
	say("log in as %s with the password %s (for this run only; --users FILE names users of your own)", users.OneTimeUser, s.oneTime.password)
	say("%s", s.oneTime.mayDo())
	if at.IsValid() {
		say("try: sftp -P %d %s@%s", at.Port(), users.OneTimeUser, at.Addr())
	}
}

// warn logs faults in the users file, and in the files that it names, if the faults do not prevent
// logins.
func (s *Service) warn() {
	for _, err := range s.sessions.Users.Warnings() {
		s.log.Say(slog.LevelWarn, "sftp users", slog.String("error", err.Error()))
	}
}

// SandboxPaths adds the directories of users, and the files that authentication depends on.
func (s *Service) SandboxPaths(c *privilege.Confinement) {
	c.Trees = append(c.Trees, s.roots.MainDir()...)
	// Leave out directories that do not exist; checkRoots logs them.
	c.Trees = append(c.Trees, service.Existing(s.roots.Outside(s.sessions.Users))...)
	c.Read = append(c.Read, s.sessions.Reads()...)
}

// StartBackground logs the files for authentication that the process cannot read as its final user,
// and starts background work.
func (s *Service) StartBackground(ctx context.Context) {
	for _, dir := range s.sessions.Reads() {
		if slices.Contains(sharedDirs, dir) {
			s.log.Say(slog.LevelInfo, "sftp users: the users file, or a file that it names, shares a directory with other files, which the confinement lets haul read too; use a directory of its own",
				slog.String("directory", dir))
		}
	}
	go func() { // in the background, because a disk may hang
		if s.oneTime != nil && s.oneTime.access != users.ReadOnly {
			service.WarnUnwritable("sftp", s.roots.MainDir(), s.log.Say)
		}
		s.checkRoots()
		s.sessions.Watch(ctx, "sftp", s.log.Say, s.reloaded)
	}()
	go service.SweepOften(ctx, s.log.Say, func() (int, error) { return s.roots.Sweep(ctx, s.roots.Outside(s.sessions.Users)) })
}

// checkRoots logs the roots of users that cannot be opened, one line each, up to maxRootsLogged.
func (s *Service) checkRoots() {
	failed := s.roots.Unopenable(s.sessions.Users)
	for _, err := range failed[:min(len(failed), maxRootsLogged)] {
		s.log.Say(slog.LevelWarn, "sftp users: a root cannot be opened, so its users cannot log in", slog.String("error", err.Error()))
	}
	if more := len(failed) - maxRootsLogged; more > 0 {
		s.log.Say(slog.LevelWarn, "sftp users: more roots cannot be opened", slog.Int("roots", more))
	}
}

// reloaded is called when the users file has changed. It closes connections whose login is no
// longer valid.
func (s *Service) reloaded() {
	s.warn()
	s.roots.Learn(s.sessions.Users)
	s.checkRoots()
	s.sessions.EndRevoked(func(g *logins.Session, why string) {
		s.log.Say(slog.LevelWarn, "sftp users: ending a connection", slog.String("user", g.Login.User.Name),
			slog.String("peer", g.Peer), slog.String("reason", why))
	})
}

// Serve serves until ctx ends. After Retire, it also returns once the last connection is closed.
func (s *Service) Serve(ctx context.Context) error {
	s.log.away.Restrict(&s.accept, s.cfg)
	l, err := s.accept.Listener(s.at...)
	if err != nil {
		return err
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	retired := make(chan struct{})
	go func() {
		defer close(retired)
		select {
		case <-ctx.Done():
		case limit := <-s.retired:
			patient, cancel := context.WithTimeout(ctx, limit)
			defer cancel()
			l.Drain(patient)
			end()
		}
	}()
	err = s.srv.Serve(ctx, l)
	end()
	<-retired
	return err
}

// Sockets returns duplicates of the sockets, for a successor.
func (s *Service) Sockets() ([]handover.Socket, error) {
	return handover.FromTCP(handover.SFTP, s.at, s.asked)
}

// Retire makes Serve return once the open connections are closed, or after limit.
func (s *Service) Retire(limit time.Duration) { s.retired <- limit }

// Name returns the name of the service in a handover.
func (s *Service) Name() string { return handover.SFTP }

// Alive acquires a lock that every new connection needs. If nobody releases the lock, Alive never
// returns, and the watchdog ends the process.
func (s *Service) Alive() bool {
	_ = s.srv.Counters()
	return true
}
