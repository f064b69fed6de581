// Package serve is the server behind "haul serve": TFTP, SFTP and HTTP over the same
// directories, with one log, metrics, restarts without downtime, and as few rights as
// they need.
//
// [Run] puts it together from a [Config], step by step. Each protocol is a service, in
// tftp.go, sftp.go and http.go. Nothing here reads a command line.
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

	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/server/handover"
	"github.com/haul-project/haul/cmd/haul/internal/server/meter"
	"github.com/haul-project/haul/cmd/haul/internal/server/userroots"
	"github.com/haul-project/haul/cmd/haul/internal/system/privilege"
	"github.com/haul-project/haul/udp"
)

// A service is one of the protocols of a server. Its methods are called in this
// order.
type service interface {
	secrets() []userroots.Secret             // its files that no client may have
	keepSecret(all []userroots.Secret) error // refuses to serve a secret of any service
	listen(ctx context.Context, passed *handover.Inherited) error
	registerMetrics(counts *meter.Registry) // adds its own counts
	announce()                              // prints its addresses, and how to use it
	sandboxPaths(c *privilege.Confinement)  // adds what it needs of the file system
	startBackground(ctx context.Context)    // starts background work, after privileges are dropped
	serve(ctx context.Context) error        // until ctx has ended, and the transfers have
	sockets() ([]handover.Socket, error)    // duplicates of its sockets, for a successor
	retire(limit time.Duration)             // a successor has the sockets: serve ends with the transfers under way, or after limit
	alive() bool                            // for the watchdog; while it serves
	name() string                           // of its sockets, in a handover
	String() string                         // "TFTP on [127.0.0.1:69]"
	close()
}

// Run serves until ctx ends. It writes its addresses and the log to out. If the cause of
// ctx's end has a method Signal() os.Signal, the log names the signal.
//
// A mistake in the configuration is a [failure.Usage], a socket that cannot be had a
// [failure.Listen], and a file of this machine a [failure.Local].
func Run(ctx context.Context, cfg Config, out io.Writer) error {
	requests := handover.NewRequests(cfg.Reload) // kept until the server can handle them
	defer requests.Close()
	before, err := handover.FindPredecessor()
	if err != nil {
		return err
	}
	defer before.Close()
	err = cfg.run(ctx, before, requests, out)
	before.Fail(err)
	return err
}

func (cfg *Config) run(ctx context.Context, before *handover.Predecessor, requests *handover.Requests, out io.Writer) error {
	spawner, err := handover.FindSpawner(cfg.restarts())
	if err != nil {
		return err
	}
	if err := cfg.Notify.HideProcess(); err != nil {
		return err
	}
	env := os.Environ() // some of it is removed below, as it is for this process alone
	log, counts := cfg.log(out), cfg.counts()
	user, all, err := cfg.open(before, counts, log, out)
	defer func() { closeServices(all); cfg.sources.Close() }()
	if err == nil {
		err = cfg.mayBecome(user)
	}
	if err != nil {
		return err
	}
	manager, err := handover.FindManager()
	if err != nil {
		return err
	}
	defer manager.Close()
	passed, err := handover.Inherit(udp.Config{Plain: cfg.TFTP.NoOffload}, cfg.services(), cfg.unixServices(), before.Take())
	if err != nil {
		return failure.Listen.Wrap(err)
	}
	defer passed.Close()
	restart := &handover.Restarter{Requests: requests, Predecessor: before, Reload: cfg.Reload, Log: log}
	if spawner == nil && cfg.restarts() {
		if spawner, err = cfg.startSpawner(env); err != nil {
			return err
		}
	}
	defer spawner.Close()
	if cfg.restarts() {
		restart.Spawner = spawner
	}
	defer restart.Close()
	cfg.keepHistory(before, restart, log)
	registerReloads(counts, restart)
	defer cfg.notifier.Close()
	if err := cfg.notifier.Open(&cfg.Notify, env, user, log); err != nil {
		return err
	}
	for _, s := range all {
		if err := s.listen(ctx, passed); err != nil {
			return err
		}
	}
	admin, err := cfg.startAdmin(ctx, all, counts, passed, log, out)
	defer func() { closeAdmin(admin) }()
	if err != nil {
		return err
	}
	passed.Close() // addresses that are no longer configured
	sandbox := privilege.Confinement{Read: []string{"/proc/self"}}
	for _, s := range all {
		s.announce()
		s.sandboxPaths(&sandbox)
	}
	cfg.sandboxSources(&sandbox)
	cfg.sandboxStatus(&sandbox)
	cfg.Notify.SandboxPaths(&sandbox)
	cfg.announceAccess(out)
	cfg.Notify.Announce(func(format string, args ...any) { cfg.say(out, format, args...) })
	cfg.boundHeap()
	cfg.boundThreads()
	if !cfg.Unconfined {
		if err := dropPrivileges(user, sandbox, log); err != nil {
			return err
		}
	}
	if err := before.Ready(ctx, requests); err != nil {
		return err
	}
	spawner.Serving()
	cfg.sources.Probe(ctx)
	return cfg.runAll(ctx, all, admin, manager, restart, log)
}

// open checks the configuration, and opens all that the server needs except its sockets. The
// caller closes the services, also if there is an error. before and counts may be nil.
func (cfg *Config) open(before *handover.Predecessor, counts *meter.Registry, log *slog.Logger, out io.Writer) (user *privilege.User, all []service, err error) {
	if err := cfg.Check(); err != nil {
		return nil, nil, err
	}
	if user, err = userToBecome(cfg.User); err != nil {
		return nil, nil, err
	}
	if err := cfg.sources.Open(context.Background(), cfg.dirs(), cfg.Cache, user, before != nil, log); err != nil {
		return nil, nil, inSetting("dirs", err)
	}
	if all, err = cfg.openServices(ownUsers(user), before, counts, log, out); err != nil {
		return nil, all, err
	}
	if err := cfg.openStatus(ownUsers(user), log); err != nil {
		return nil, all, err
	}
	if err := cfg.Notify.CheckFiles(); err != nil {
		return nil, all, err
	}
	return user, all, keepSecrets(all, slices.Concat(cfg.sourceSecrets(), cfg.statusSecrets(), cfg.Notify.Secrets()))
}

// openServices opens what the protocols need except their sockets. The caller closes the
// services, also if there is an error. counts may be nil.
func (cfg *Config) openServices(owners []int, before *handover.Predecessor, counts *meter.Registry, log *slog.Logger, out io.Writer) (all []service, err error) {
	if cfg.Boot.Answer {
		boot, err := cfg.openBoot(log, out)
		if err != nil {
			return nil, err
		}
		defer func() { all, boot.others = append(all, boot), all }() // last, since it sends clients to the others
		if cfg.Boot.DryRun {
			return nil, nil
		}
	}
	if cfg.ServesTFTP() {
		s, err := cfg.openTFTP(before, counts, log, out)
		if err != nil {
			return all, err
		}
		all = append(all, s)
	}
	if cfg.ServesSFTP() {
		s, err := cfg.openSFTP(owners, counts, log, out)
		if err != nil {
			return all, err
		}
		all = append(all, s)
	}
	if cfg.ServesHTTP() {
		s, err := cfg.openHTTP(owners, counts, log, out)
		if err != nil {
			return all, err
		}
		all = append(all, s)
	}
	return all, nil
}

func closeServices(all []service) {
	for _, s := range all {
		s.close()
	}
}

// runAll serves, and keeps the service manager informed. If one service fails, all end.
// After a successor has taken over, each finishes what is under way.
func (cfg *Config) runAll(ctx context.Context, all []service, admin []*adminPort, m *handover.Manager, restart *handover.Restarter, log *slog.Logger) error {
	var names []string
	for _, s := range all {
		names = append(names, s.String())
	}
	if err := m.Ready("serving " + strings.Join(names, ", ")); err != nil {
		log.Warn("service manager", "error", err)
	}
	running, end := context.WithCancel(ctx)
	defer end()
	defer logSignal(ctx, log, cfg.Grace)()
	for _, s := range all {
		s.startBackground(running)
	}
	cfg.warnUnreadable(log)
	watched, unwatch := context.WithCancel(running) // by the service manager
	defer unwatch()
	restart.Sockets = func() ([]handover.Socket, error) { return allSockets(all, admin) }
	restart.HandOver = func(pid int) {
		// The manager must know the successor before that reports to it.
		unwatch()
		if restart.Spawner.IsInit() {
			return // process 1 remains the service
		}
		if err := m.SucceededBy(pid); err != nil {
			log.Warn("service manager", "error", err)
		}
	}
	restart.Retire = func() {
		closeAdmin(admin)
		cfg.sources.Release()
		for _, s := range all {
			s.retire(handover.RetireTime)
		}
	}
	var reported, served sync.WaitGroup
	reported.Go(func() { restart.Run(running) })
	reported.Go(func() {
		if err := m.KeepAlive(watched, func() bool { return !slices.ContainsFunc(all, func(s service) bool { return !s.alive() }) }); err != nil {
			log.Warn("service manager", "error", err)
		}
		<-running.Done()
		if !restart.Retired() {
			_ = m.Stopping("waiting for transfers to finish") // the manager notices the end anyway
		}
	})
	errs := make([]error, len(all))
	for i, s := range all {
		served.Go(func() {
			errs[i] = s.serve(running)
			// It ended because ctx did, or failed; or it retired, and the other services
			// may still run.
			if restart.Ended(s.name()); !restart.Retired() {
				end()
			}
		})
	}
	served.Wait()
	end()
	reported.Wait() // otherwise the process might end before the last report
	return errors.Join(errs...)
}

// restarts reports whether a successor can take over.
func (cfg *Config) restarts() bool { return cfg.Restartable || cfg.Reload }

// startSpawner starts the process that can start a successor. It returns nil where there
// can be none, unless --restartable asks for one.
func (cfg *Config) startSpawner(env []string) (*handover.Spawner, error) {
	s, err := handover.StartSpawner(env)
	switch {
	case errors.Is(err, handover.ErrNoRestart) && !cfg.Restartable:
		return nil, nil
	case errors.Is(err, handover.ErrNoRestart):
		return nil, failure.Mistake("restartable", "--restartable: %w", err)
	case err != nil:
		return nil, fmt.Errorf("start the process that starts successors: %w", err)
	}
	return s, nil
}

// A signalError is the cause of a context's end that names a signal.
type signalError interface {
	error
	Signal() os.Signal
}

// logSignal logs the signal that ends ctx. It returns a function that waits for the
// line.
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

// allSockets returns the sockets for a successor.
func allSockets(all []service, admin []*adminPort) (sockets []handover.Socket, err error) {
	for _, s := range all {
		some, failed := s.sockets()
		sockets, err = append(sockets, some...), errors.Join(err, failed)
	}
	for _, p := range admin {
		some, failed := handover.FromTCP(p.service, p.sockets, p.asked)
		sockets, err = append(sockets, some...), errors.Join(err, failed)
	}
	if err != nil {
		handover.CloseSockets(sockets)
		return nil, err
	}
	return sockets, nil
}
