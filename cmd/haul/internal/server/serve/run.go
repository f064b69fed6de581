// Package serve is the server behind "haul serve": TFTP, SFTP, HTTP and network boot over the same
// directories, with one log, metrics, restarts without downtime, and as few rights as they need.
//
// [Run] builds the server from a [settings.Config], step by step. Each protocol is a service, in
// the packages tftpd, sftpd, httpd and bootd. Nothing here reads a command line.
package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/server/admin"
	"github.com/haul-project/haul/cmd/haul/internal/server/bootd"
	"github.com/haul-project/haul/cmd/haul/internal/server/handover"
	"github.com/haul-project/haul/cmd/haul/internal/server/httpd"
	"github.com/haul-project/haul/cmd/haul/internal/server/meter"
	"github.com/haul-project/haul/cmd/haul/internal/server/service"
	"github.com/haul-project/haul/cmd/haul/internal/server/settings"
	"github.com/haul-project/haul/cmd/haul/internal/server/sftpd"
	"github.com/haul-project/haul/cmd/haul/internal/server/status"
	"github.com/haul-project/haul/cmd/haul/internal/server/tftpd"
	"github.com/haul-project/haul/cmd/haul/internal/server/userroots"
	"github.com/haul-project/haul/cmd/haul/internal/system/privilege"
	"github.com/haul-project/haul/udp"
)

// A protocol is one service of a server. Its methods are called in this order.
type protocol interface {
	// Secrets returns the files of the service that no client may access.
	Secrets() []userroots.Secret
	// KeepSecret returns an error if the service would serve a file that is secret for any service.
	KeepSecret(all []userroots.Secret) error
	// Listen opens the sockets, or takes over those passed to the process.
	Listen(ctx context.Context, passed *handover.Inherited) error
	// RegisterMetrics registers the counters of the service.
	RegisterMetrics(counts *meter.Registry)
	// Announce prints the addresses, and how to use them.
	Announce()
	// SandboxPaths adds the parts of the file system that the service needs.
	SandboxPaths(c *privilege.Confinement)
	// StartBackground starts background work, once privileges are dropped.
	StartBackground(ctx context.Context)
	// Serve serves until ctx has ended and the transfers are done.
	Serve(ctx context.Context) error
	// Sockets returns duplicates of the sockets, for a successor.
	Sockets() ([]handover.Socket, error)
	// Retire is called once a successor has the sockets. It makes Serve return once the transfers
	// are done, or after limit.
	Retire(limit time.Duration)
	// Alive reports whether the service works, for the watchdog.
	Alive() bool
	// Name returns the name of the service in a handover.
	Name() string
	// String returns a description such as "TFTP on [127.0.0.1:69]".
	String() string
	Close()
}

// A server holds the services and other parts of "haul serve".
type server struct {
	cfg      settings.Config
	env      service.Env
	user     *privilege.User    // the user that the process becomes; nil means no change
	secrets  []userroots.Secret // files that only the settings name, and that clients may not access
	services []protocol
	// boot is the boot service, which is also in services; nil if the server does not answer boot
	// clients.
	boot  *bootd.Service
	admin *admin.Server
	board *status.Board // the content of the status page; nil if there is no status page
}

// newServer returns a server that writes its messages and the log to out.
func newServer(cfg settings.Config, out io.Writer) *server {
	level := slog.LevelInfo
	if cfg.Quiet {
		level = slog.LevelWarn
	}
	json := cfg.LogFormat == "json"
	return &server{cfg: cfg, secrets: cfg.Secrets(), env: service.Env{Out: out, JSON: json, Log: console.NewLogger(out, json, level)}}
}

// Run serves until ctx ends. It writes its addresses and the log to out. If the cause of ctx has a
// method Signal() os.Signal, the log names the signal.
//
// A mistake in the configuration is a [failure.Usage]. If a socket cannot be opened, the error is a
// [failure.Listen]; if the reason is a file of this machine, the error is a [failure.Local].
func Run(ctx context.Context, cfg settings.Config, out io.Writer) error {
	return newServer(cfg, out).run(ctx)
}

func (s *server) run(ctx context.Context) error {
	// Collect requests from now on; they are handled once the server serves.
	requests := handover.NewRequests(s.cfg.Reloads())
	defer requests.Close()
	before, err := handover.FindPredecessor()
	if err != nil {
		return err
	}
	defer before.Close()
	s.env.Predecessor = before
	err = s.start(ctx, requests)
	before.Fail(err)
	return err
}

// start opens everything, drops privileges and serves.
func (s *server) start(ctx context.Context, requests *handover.Requests) error {
	cfg, env, before := &s.cfg, &s.env, s.env.Predecessor
	spawner, err := handover.FindSpawner(cfg.Restarts())
	if err != nil {
		return err
	}
	if err := cfg.Notify.HideProcess(); err != nil {
		return err
	}
	// Copy the environment now, because the calls below remove the variables that are meant only
	// for this process.
	environ := os.Environ()
	env.Notifier = cfg.Notify.New()
	env.Counts, s.board = newCounts(cfg, env.Notifier.Report)
	err = s.open()
	defer s.close()
	if err == nil {
		err = mayBecome(s.user, cfg)
	}
	if err != nil {
		return err
	}
	manager, err := handover.FindManager()
	if err != nil {
		return err
	}
	defer manager.Close()
	passed, err := handover.Inherit(udp.Config{Plain: cfg.TFTP.NoOffload}, services(cfg), unixServices(cfg), before.Take())
	if err != nil {
		return failure.Listen.Wrap(err)
	}
	defer passed.Close()
	restart := &handover.Restarter{Requests: requests, Predecessor: before, Reload: cfg.Reloads(), Log: env.Log}
	if spawner == nil && cfg.Restarts() {
		if spawner, err = startSpawner(cfg, environ); err != nil {
			return err
		}
	}
	defer spawner.Close()
	if cfg.Restarts() {
		restart.Spawner = spawner
	}
	defer restart.Close()
	s.admin.KeepHistory(restart)
	registerReloads(env.Counts, restart)
	defer env.Notifier.Close()
	if err := env.Notifier.Open(&cfg.Notify, environ, s.user, env.Log); err != nil {
		return err
	}
	defer s.admin.Close()
	if err := s.listen(ctx, passed); err != nil {
		return err
	}
	passed.Close() // closes sockets at addresses that are no longer configured
	sandbox := s.announce()
	boundHeap(cfg)
	boundThreads(cfg)
	if !cfg.Unconfined {
		if err := dropPrivileges(s.user, sandbox, env.Log); err != nil {
			return err
		}
	}
	if err := before.Ready(ctx, requests); err != nil {
		return err
	}
	spawner.Serving()
	env.Sources.Probe(ctx)
	return s.serve(ctx, manager, restart)
}

// open checks the configuration, and opens everything that the server needs except its sockets. The
// caller calls close, even after an error.
func (s *server) open() (err error) {
	cfg, env := &s.cfg, &s.env
	if err := cfg.Check(); err != nil {
		return err
	}
	if s.user, err = userToBecome(cfg.User); err != nil {
		return err
	}
	env.Sources.Redirects = cfg.RedirectTo
	if err := env.Sources.Open(context.Background(), cfg.Directories(), cfg.Cache, s.user, env.Predecessor != nil, env.Log); err != nil {
		return failure.InSetting("dirs", err)
	}
	env.Owners = ownUsers(s.user)
	if err := s.openServices(); err != nil {
		return err
	}
	if s.admin, err = admin.New(cfg, env, s.board); err != nil {
		return err
	}
	if err := cfg.Notify.CheckFiles(); err != nil {
		return err
	}
	return s.keepSecrets(slices.Concat(sourceSecrets(&env.Sources), s.admin.Secrets(), cfg.Notify.Secrets()))
}

// openServices opens everything that the protocols need except their sockets. The boot service is
// opened first, because it has to be notified of the files that clients fetch from the other
// services. It is the last one in the list, because it sends clients to the other services, which
// have to listen by then.
func (s *server) openServices() (err error) {
	cfg, env := &s.cfg, &s.env
	if cfg.Boot.Answer {
		if s.boot, err = bootd.New(cfg, env); err != nil {
			return err
		}
		if s.board != nil {
			s.board.Machines = s.boot.Machines
		}
		defer func() { s.services = append(s.services, s.boot) }()
		if cfg.Boot.DryRun {
			return nil
		}
	}
	if cfg.ServesTFTP() {
		t, err := tftpd.New(cfg, env)
		if err != nil {
			return err
		}
		if s.services = append(s.services, t); s.boot != nil {
			s.boot.TFTP = t.Addrs
		}
	}
	if cfg.ServesSFTP() {
		t, err := sftpd.New(cfg, env)
		if err != nil {
			return err
		}
		s.services = append(s.services, t)
	}
	if cfg.ServesHTTP() {
		h, err := httpd.New(cfg, env)
		if err != nil {
			return err
		}
		if s.services = append(s.services, h); s.boot != nil {
			s.boot.HTTP = h.Addrs
		}
	}
	return nil
}

// keepSecrets returns an error if the server would serve a file or directory that clients must not
// access: a secret in the list `all`, or one that a service reports.
func (s *server) keepSecrets(all []userroots.Secret) error {
	for _, p := range s.services {
		all = append(all, p.Secrets()...)
	}
	all = append(all, s.secrets...)
	for _, p := range s.services {
		if err := p.KeepSecret(all); err != nil {
			return err
		}
	}
	return nil
}

// close closes everything that open has opened.
func (s *server) close() {
	for _, p := range s.services {
		p.Close()
	}
	s.env.Sources.Close()
}

// listen opens the sockets, and starts the metrics and the status page.
func (s *server) listen(ctx context.Context, passed *handover.Inherited) error {
	for _, p := range s.services {
		if err := p.Listen(ctx, passed); err != nil {
			return err
		}
	}
	if s.env.Counts == nil {
		return nil
	}
	for _, p := range s.services {
		p.RegisterMetrics(s.env.Counts)
	}
	s.env.Sources.RegisterMetrics(s.env.Counts)
	s.env.Notifier.RegisterMetrics(s.env.Counts)
	return s.admin.Start(ctx, passed)
}

// announce prints what the server serves, and returns the parts of the file system that it needs.
func (s *server) announce() privilege.Confinement {
	sandbox := privilege.Confinement{Read: []string{"/proc/self"}}
	for _, p := range s.services {
		p.Announce()
		p.SandboxPaths(&sandbox)
	}
	sandboxSources(&sandbox, &s.cfg, &s.env.Sources)
	s.admin.SandboxPaths(&sandbox)
	s.cfg.Notify.SandboxPaths(&sandbox)
	announceAccess(&s.cfg, s.env.Say)
	s.cfg.Notify.Announce(s.env.Say)
	return sandbox
}

// serve runs the services, and keeps the service manager informed. If one service fails, serve
// stops all of them. After a successor has taken over, each service finishes its transfers.
func (s *server) serve(ctx context.Context, m *handover.Manager, restart *handover.Restarter) error {
	log := s.env.Log
	var names []string
	for _, p := range s.services {
		names = append(names, p.String())
	}
	if err := m.Ready("serving " + strings.Join(names, ", ")); err != nil {
		log.Warn("service manager", "error", err)
	}
	running, end := context.WithCancel(ctx)
	defer end()
	defer logSignal(ctx, log, s.cfg.Grace)()
	for _, p := range s.services {
		p.StartBackground(running)
	}
	s.admin.WarnUnreadable()
	// watched is cancelled when the service manager no longer watches this process.
	watched, unwatch := context.WithCancel(running)
	defer unwatch()
	restart.Sockets = func() ([]handover.Socket, error) { return s.sockets() }
	restart.HandOver = func(pid int) {
		// The service manager must know about the successor before the successor reports to the
		// manager.
		unwatch()
		if restart.Spawner.IsInit() {
			return // process 1 remains the main process of the service
		}
		if err := m.SucceededBy(pid); err != nil {
			log.Warn("service manager", "error", err)
		}
	}
	restart.Retire = func() {
		s.admin.Close()
		s.env.Sources.Release()
		for _, p := range s.services {
			p.Retire(handover.RetireTime)
		}
	}
	var reported, served sync.WaitGroup
	reported.Go(func() { restart.Run(running) })
	reported.Go(func() {
		if err := m.KeepAlive(watched, func() bool { return !slices.ContainsFunc(s.services, func(p protocol) bool { return !p.Alive() }) }); err != nil {
			log.Warn("service manager", "error", err)
		}
		<-running.Done()
		if !restart.Retired() {
			// If this fails, the manager still notices that the process exits.
			_ = m.Stopping("waiting for transfers to finish")
		}
	})
	errs := make([]error, len(s.services))
	for i, p := range s.services {
		served.Go(func() {
			errs[i] = p.Serve(running)
			// Serve returns in three cases: the service has failed, ctx has ended, or the service
			// has retired while other services still run.
			if restart.Ended(p.Name()); !restart.Retired() {
				end()
			}
		})
	}
	served.Wait()
	end()
	reported.Wait() // otherwise the process might exit before its last reports are sent
	return errors.Join(errs...)
}

// startSpawner starts the process that can start a successor. On systems without spawners it
// returns nil, or an error if --restartable is set.
func startSpawner(cfg *settings.Config, env []string) (*handover.Spawner, error) {
	s, err := handover.StartSpawner(env)
	switch {
	case errors.Is(err, handover.ErrNoRestart) && !cfg.Restartable:
		return nil, nil
	case errors.Is(err, handover.ErrNoRestart):
		return nil, failure.Mistake("restartable", "%s: %w", failure.Flag("restartable"), err)
	case err != nil:
		return nil, fmt.Errorf("start the process that starts successors: %w", err)
	}
	return s, nil
}

// A signalError is the cause with which a signal cancels a context.
type signalError interface {
	error
	Signal() os.Signal
}

// logSignal logs the signal that cancels ctx. It returns a function that waits until the signal is
// logged.
func logSignal(ctx context.Context, log *slog.Logger, grace time.Duration) (wait func()) {
	logged := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(logged)
		if caught, ok := errors.AsType[signalError](context.Cause(ctx)); ok {
			log.Info("signal received: accepting nothing more, and waiting for transfers; the next signal ends at once",
				"signal", caught.Signal().String(), "grace", grace)
		}
	})
	return func() {
		if !stop() {
			<-logged
		}
	}
}

// sockets returns duplicates of all sockets, for a successor.
func (s *server) sockets() (all []handover.Socket, err error) {
	for _, p := range s.services {
		some, failed := p.Sockets()
		all, err = append(all, some...), errors.Join(err, failed)
	}
	some, failed := s.admin.Sockets()
	if all, err = append(all, some...), errors.Join(err, failed); err != nil {
		handover.CloseSockets(all)
		return nil, err
	}
	return all, nil
}
