package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"slices"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/server/handover"
	"github.com/haul-project/haul/cmd/haul/internal/server/meter"
	"github.com/haul-project/haul/cmd/haul/internal/server/userroots"
	"github.com/haul-project/haul/cmd/haul/internal/system/ownprocess"
	"github.com/haul-project/haul/cmd/haul/internal/system/privilege"
	"github.com/haul-project/haul/sftp"
	"github.com/haul-project/haul/tcp"
	"github.com/haul-project/haul/users"
)

// maxRootsLogged is how many roots that cannot be opened are logged, a line each.
const maxRootsLogged = 20

// sharedDirs are directories with many other files.
var sharedDirs = []string{"/", "/etc", "/home", "/root", "/tmp", "/usr", "/var"}

// An sftpService serves SFTP.
type sftpService struct {
	cfg      *Config
	out      io.Writer
	srv      *sftp.Server
	sessions *userSessions
	roots    *userroots.Roots
	keys     []users.HostKey
	owners   []int  // users besides root who may own the host keys
	hostKeys string // their directory, or NoHostKeys
	log      *sftpLog
	config   ssh.ServerConfig // without how to log in
	accept   tcp.Server
	at       []*tcp.Socket
	asked    []string // their addresses as configured
	retired  chan time.Duration
}

// openSFTP opens what SFTP needs except its sockets. owners are the users that the server
// runs as, now and later: the files that decide who may log in must belong to them or to
// root. counts may be nil.
func (cfg *Config) openSFTP(owners []int, counts *meter.Registry, log *slog.Logger, out io.Writer) (_ *sftpService, err error) {
	s := &sftpService{cfg: cfg, out: out, owners: owners, retired: make(chan time.Duration, 1)}
	if s.roots, err = userroots.Open(cfg.Dirs[0], cfg.sources.Tree(cfg.Dirs[0]), userroots.Options{SpecialBits: cfg.SFTP.SpecialBits, NoSync: cfg.NoFsync, Kept: cfg.notifier.Kept}); err != nil {
		return nil, inSetting("dirs", err)
	}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if s.sessions, err = cfg.openSessions(owners); err != nil {
		return nil, inSetting("users", err)
	}
	s.roots.Learn(s.sessions.dir)
	if err := s.roots.CheckSource(s.sessions.dir); err != nil {
		return nil, inSetting("users", err)
	}
	if s.hostKeys = cfg.SFTP.HostKeys; s.hostKeys == "" {
		if s.hostKeys, err = stateDir("host-keys", "a directory for the host keys by --host-keys DIR"); err != nil {
			return nil, err
		}
	}
	s.log = newSFTPLog(log, counts)
	s.log.report = cfg.notifier.Report
	s.srv = &sftp.Server{
		SSH: s.configure, Login: s.login,
		Grace: cfg.Grace, Rate: cfg.SFTP.Rate, MaxConns: cfg.SFTP.MaxConns, MaxConnsPerSource: cfg.SFTP.MaxConnsPerSource,
		Exempt: slices.Concat(cfg.SFTP.Exempt, cfg.SFTP.Proxies), // a proxy's own connections are health checks
	}
	s.srv.Prepare() // before the confinement
	s.log.observe(s.srv)
	return s, nil
}

// openKeys loads the host keys, or creates one if there is none.
func (s *sftpService) openKeys() (err error) {
	if s.hostKeys == NoHostKeys {
		key, err := users.OneTimeHostKey()
		if err != nil {
			return failure.Local.Wrap(err)
		}
		s.keys = []users.HostKey{key}
	} else if s.keys, err = users.HostKeys(s.hostKeys, s.owners...); err != nil {
		hint := ""
		if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
			hint = "; --host-keys DIR names a directory that this user may write to"
		}
		return inSetting("host-keys", failure.Local.Errorf("%w%s", err, hint))
	}
	for _, k := range s.keys {
		s.config.AddHostKey(k.Signer)
	}
	return nil
}

func (s *sftpService) secrets() (all []userroots.Secret) {
	if s.hostKeys != NoHostKeys {
		all = append(all, userroots.Secret{Flag: "--host-keys", What: "the server's host keys", Path: s.hostKeys, Instead: "; --host-keys none uses a key for this run only, in memory"})
	}
	if s.sessions.file != "" {
		all = append(all, userroots.Secret{Flag: "--users", What: "the users file", Path: s.sessions.file})
	}
	for _, list := range s.sessions.dir.Lists() {
		all = append(all, userroots.Secret{Flag: "--users", What: "the list " + list + " that the users file names", Path: list})
	}
	return all
}

func (s *sftpService) keepSecret(all []userroots.Secret) error {
	return s.roots.KeepSecret(s.sessions.dir, all)
}

// fitDescriptors lowers the number of connections to what the descriptors allow.
func (s *sftpService) fitDescriptors(limit int) {
	most := max(1, (limit-min(spareFiles, limit/2))/(filesPerConn+s.roots.FilesPerVisit(s.sessions.dir)))
	if s.srv.MaxConns > most {
		if s.srv.MaxConns != defaultConns || most < fewConns {
			s.log.Logger.Info(fmt.Sprintf("open-file limit %d allows %d SSH connections; raise ulimit -n (LimitNOFILE=) for more", limit, most))
		}
		s.srv.MaxConns = most
	}
	s.srv.MaxHandles = min(handlesPerUser, max(16, limit/16))
}

func (s *sftpService) close() {
	closeAll(s.at)
	if s.log != nil {
		s.log.away.Flush()
		s.log.locked.Flush()
		s.log.badConns.Flush()
		s.log.Close()
	}
	s.roots.Close()
}

// configure is the server's hook for a new connection.
func (s *sftpService) configure(_ context.Context, c net.Conn) (*ssh.ServerConfig, error) {
	config := s.config
	s.sessions.dir.Configure(&config, users.Options{Audit: s.log.begin(c)})
	return &config, nil
}

// login is the server's hook for a user who has been authenticated.
func (s *sftpService) login(_ context.Context, c *ssh.ServerConn) (*sftp.Account, error) {
	l, ok := users.LoginOf(c.Permissions)
	if !ok {
		return nil, errors.New("nobody has logged in") // impossible: see Configure
	}
	a, err := s.account(c, l)
	if err != nil {
		s.log.failed(c, l.User.Name, err)
		return nil, err
	}
	s.log.accepted(c, l)
	return a, nil
}

// account returns a user's account.
func (s *sftpService) account(c *ssh.ServerConn, l *users.Login) (*sftp.Account, error) {
	files, created, leave, err := s.roots.Enter(l.User)
	if created {
		s.log.Say(slog.LevelInfo, "sftp: created a user's directory", slog.String("user", l.User.Name), slog.String("root", l.User.Root))
	}
	if err != nil {
		return nil, err
	}
	life, gone, err := s.sessions.enter(l, connPeer(c.RemoteAddr()))
	if err != nil {
		leave()
		return nil, err
	}
	return &sftp.Account{
		User: l.User.Name, Tree: files, Dir: l.Dir, Access: l.Access, Rate: l.User.Limit, Hidden: !s.cfg.SFTP.InPlace,
		CreateOnly: s.sessions.createOnly,
		Life:       life,
		Close: func() {
			gone()
			leave()
		},
	}, nil
}

// listen loads the host keys, and opens the sockets, unless systemd has done so.
func (s *sftpService) listen(ctx context.Context, passed *handover.Inherited) (err error) {
	if err := s.openKeys(); err != nil {
		return err
	}
	s.fitDescriptors(s.cfg.shareOf(ownprocess.OpenFiles()))
	s.accept.Log = s.log.Logger
	s.expectProxies()
	s.at, s.asked, err = s.cfg.listenTCP(ctx, passed, handover.SFTP, s.cfg.SFTP.Listen, tcp.Options{})
	if err == nil && s.cfg.SFTP.UnixProxies {
		err = s.log.badConns.needUnixSocket(handover.SFTP, s.at)
	}
	return err
}

// expectProxies sets what has to do with PROXY headers.
func (s *sftpService) expectProxies() {
	s.accept.Proxies, s.accept.UnixProxies = s.cfg.SFTP.Proxies, s.cfg.SFTP.UnixProxies
	s.accept.BadHandshake = func(c *tcp.Conn, err error) { s.log.badConns.handshake(c, err) }
	s.accept.FirstBytes = func(c *tcp.Conn, begin []byte) {
		var head [5]byte
		if copy(head[:], begin); looksLikeProxy(head) {
			s.log.badConns.add(slog.LevelWarn, headerAhead, c, errNotSSH)
		}
	}
	if len(s.accept.Proxies) > 0 || s.accept.UnixProxies {
		s.accept.MaxConns = 2 * s.srv.MaxConns // as many again may wait for their header
	}
}

var errNotSSH = errors.New("the first bytes are not those of SSH")

func (s *sftpService) addrs() (addrs []net.Addr) {
	for _, socket := range s.at {
		addrs = append(addrs, socket.Addr())
	}
	return addrs
}

func (s *sftpService) String() string { return fmt.Sprintf("SFTP on %v", s.addrs()) }

// announce prints the server's addresses, its host keys, and who may log in.
func (s *sftpService) announce() {
	say := func(format string, args ...any) { s.cfg.say(s.out, format, args...) }
	var at netip.AddrPort
	for i, addr := range s.addrs() {
		a, err := netip.ParseAddrPort(addr.String())
		if err != nil {
			say("serving %s on the unix socket %s, by sftp", s.cfg.Dirs[0], addr)
			continue
		}
		shown, host := shownAddr(a, s.asked[i])
		say("serving %s on sftp://%s", s.cfg.Dirs[0], shown)
		if !at.IsValid() {
			at = netip.AddrPortFrom(host, a.Port())
		}
	}
	for _, k := range s.keys {
		if _, ok := k.Signer.PublicKey().(*ssh.Certificate); ok {
			continue // its key is listed too
		}
		say("host key %s %s", k.Signer.PublicKey().Type(), k.Fingerprint())
		switch {
		case k.File == "":
			say("that key is for this run only")
		case k.Created:
			say("that key is new, and stored in %s", k.File)
		}
	}
	if s.sessions.file != "" {
		say("%s, from %s", console.Plural(int64(len(s.sessions.dir.Names())), "user"), s.sessions.file)
		s.warn()
		return
	}
	say("log in as %s with the password %s (for this run only; --users FILE names users of your own)", users.OneTimeUser, s.sessions.password)
	say("%s", s.sessions.mayDo())
	if at.IsValid() {
		say("try: sftp -P %d %s@%s", at.Port(), users.OneTimeUser, at.Addr())
	}
}

// warn logs what is wrong with the users file and the files it names. It refuses nobody.
func (s *sftpService) warn() {
	for _, err := range s.sessions.dir.Warnings() {
		s.log.Say(slog.LevelWarn, "sftp users", slog.String("error", err.Error()))
	}
}

func (s *sftpService) sandboxPaths(c *privilege.Confinement) {
	c.Trees = append(c.Trees, s.roots.MainDir()...)
	for _, path := range s.roots.Outside(s.sessions.dir) {
		if _, err := os.Stat(path); err == nil { // otherwise checkRoots logs it
			c.Trees = append(c.Trees, path)
		}
	}
	c.Read = append(c.Read, s.sessions.reads()...)
}

// startBackground logs what the process cannot read as the user that it changed to, and
// starts background work.
func (s *sftpService) startBackground(ctx context.Context) {
	for _, dir := range s.sessions.reads() {
		if slices.Contains(sharedDirs, dir) {
			s.log.Say(slog.LevelInfo, "sftp users: the users file, or a file that it names, shares a directory with other files, which the confinement lets haul read too; use a directory of its own",
				slog.String("directory", dir))
		}
	}
	go func() { // a disk that hangs delays nobody
		if u, _ := s.sessions.dir.User(users.OneTimeUser); s.sessions.file == "" && u.Access != users.ReadOnly {
			warnUnwritable("sftp", s.roots.MainDir(), s.log.Say)
		}
		s.checkRoots()
		s.sessions.watch(ctx, "sftp", s.log.Say, s.reloaded)
	}()
	go sweepOften(ctx, s.log.Say, func() (int, error) { return s.roots.Sweep(ctx, s.roots.Outside(s.sessions.dir)) })
}

// checkRoots logs roots that cannot be opened.
func (s *sftpService) checkRoots() {
	failed := s.roots.Unopenable(s.sessions.dir)
	for _, err := range failed[:min(len(failed), maxRootsLogged)] {
		s.log.Say(slog.LevelWarn, "sftp users: a root cannot be opened, so its users cannot log in", slog.String("error", err.Error()))
	}
	if more := len(failed) - maxRootsLogged; more > 0 {
		s.log.Say(slog.LevelWarn, "sftp users: more roots cannot be opened", slog.Int("roots", more))
	}
}

// reloaded is called when the users file has changed: it ends connections whose login is no
// longer valid.
func (s *sftpService) reloaded() {
	s.warn()
	s.roots.Learn(s.sessions.dir)
	s.checkRoots()
	s.sessions.endRevoked(func(g *session, why string) {
		s.log.Say(slog.LevelWarn, "sftp users: ending a connection", slog.String("user", g.login.User.Name),
			slog.String("peer", g.peer), slog.String("reason", why))
	})
}

// serve serves until ctx ends, or until a successor serves and the last connection has
// ended.
func (s *sftpService) serve(ctx context.Context) error {
	s.cfg.restrict(&s.accept, &s.log.away)
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

func (s *sftpService) sockets() ([]handover.Socket, error) {
	return handover.FromTCP(handover.SFTP, s.at, s.asked)
}

func (s *sftpService) retire(limit time.Duration) { s.retired <- limit }

func (s *sftpService) name() string { return handover.SFTP }

// alive takes a lock that every new connection needs. If that is never released, alive
// hangs, and the watchdog ends the process.
func (s *sftpService) alive() bool {
	_ = s.srv.Counters()
	return true
}
