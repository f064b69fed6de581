// Package serve is the server behind "haul serve": TFTP, SFTP and HTTP over the same
// directories, with one log, metrics, restarts without downtime, and as few rights as
// they need.
//
// [Run] puts it together from a [Config], and says in which order. Each protocol is a
// service, in tftp.go, sftp.go and http.go. Nothing here reads a command line.
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

	"github.com/haul-project/haul/internal/handover"
	"github.com/haul-project/haul/internal/privilege"
	"github.com/haul-project/haul/meter"
	"github.com/haul-project/haul/udp"
)

// A service is one of the protocols of a server. Its methods are called in this
// order.
type service interface {
	secrets() []secret             // files of its own that no client may have
	keepSecret(all []secret) error // refuses to serve any of those of all services
	listen(ctx context.Context, passed *handover.Inherited) error
	show(counts *meter.Registry)         // what it counts by itself
	announce()                           // where it is, and how to use it
	needs(c *privilege.Confinement)      // adds what it needs of the file system
	settled(ctx context.Context)         // nothing more can be opened; begins what goes on beside the serving
	serve(ctx context.Context) error     // until ctx ends, and what is under way has
	sockets() ([]handover.Socket, error) // duplicates of what it listens on, for a successor
	retire(limit time.Duration)          // a successor has the sockets: serve ends with what is under way, or when limit is over
	alive() bool                         // for the watchdog; while it serves
	name() string                        // as sockets are named by
	String() string                      // "TFTP on [127.0.0.1:69]"
	close()
}

// Run serves until ctx ends. It writes the log, and where and how it can be reached, to
// out. If the cause of ctx's end has a method Signal() os.Signal, the log names the
// signal.
//
// A mistake in the configuration is a [UsageError], a socket that cannot be had a
// [ListenError], and a file of this machine a [LocalError].
func Run(ctx context.Context, cfg Config, out io.Writer) error {
	if err := cfg.Check(); err != nil {
		return err
	}
	user, err := userToBecome(cfg.User)
	if err != nil {
		return err
	}
	env := os.Environ() // some of it is taken out, being for this process alone
	before, err := handover.FindPredecessor()
	if err != nil {
		return err
	}
	defer before.Close()
	log, counts := cfg.log(out), cfg.counts()
	var all []service
	defer func() {
		for _, s := range all {
			s.close()
		}
	}()
	if cfg.ServesTFTP() {
		t, err := cfg.openTFTP(before, counts, log, out)
		if err != nil {
			return err
		}
		all = append(all, t)
	}
	if cfg.ServesSFTP() {
		s, err := cfg.openSFTP(ownUsers(user), counts, log, out)
		if err != nil {
			return err
		}
		all = append(all, s)
	}
	if cfg.ServesHTTP() {
		h, err := cfg.openHTTP(ownUsers(user), counts, log, out)
		if err != nil {
			return err
		}
		all = append(all, h)
	}
	if err := keepSecrets(all); err != nil {
		return err
	}
	manager, err := handover.FindManager()
	if err != nil {
		return err
	}
	defer manager.Close()
	passed, err := handover.Inherit(udp.Config{Plain: cfg.TFTP.NoOffload}, cfg.services(), cfg.HTTP.UnixProxies, before.Take())
	if err != nil {
		return ListenError{err}
	}
	defer passed.Close()
	restart := &handover.Restarter{Log: log}
	if cfg.Restartable {
		if restart.Spawner, err = startSpawner(env); err != nil {
			return err
		}
		defer restart.Spawner.Close()
	}
	var stop func()
	restart.Requests, stop = handover.Requests()
	defer stop()
	defer restart.Close()
	for _, s := range all {
		if err := s.listen(ctx, passed); err != nil {
			return err
		}
	}
	var metrics *metricsServer
	if counts != nil {
		for _, s := range all {
			s.show(counts)
		}
		m, err := serveMetrics(ctx, cfg.Metrics, passed.Metrics(), counts.Handler(), log)
		if err != nil {
			return err
		}
		defer m.Close()
		metrics = m
		cfg.say(out, "metrics at http://%v/metrics", m.Addr())
	}
	needs := privilege.Confinement{Read: []string{"/proc/self"}}
	for _, s := range all {
		s.announce()
		s.needs(&needs)
	}
	cfg.boundHeap()
	cfg.boundThreads()
	if !cfg.Unconfined {
		if err := dropPrivileges(user, needs, log); err != nil {
			return err
		}
	}
	if err := before.Ready(ctx); err != nil {
		return err
	}
	return runAll(ctx, all, metrics, manager, restart, log, cfg.Grace)
}

// runAll serves, and keeps the service manager informed. If one of several
// services fails, all end. When there is a successor, each goes on with what is
// under way. metrics may be nil.
func runAll(ctx context.Context, all []service, metrics *metricsServer, m *handover.Manager, restart *handover.Restarter, log *slog.Logger, grace time.Duration) error {
	var names []string
	for _, s := range all {
		names = append(names, s.String())
	}
	if err := m.Ready("serving " + strings.Join(names, ", ")); err != nil {
		log.Warn("service manager", "error", err)
	}
	running, end := context.WithCancel(ctx)
	defer end()
	defer logSignal(ctx, log, grace)()
	for _, s := range all {
		s.settled(running)
	}
	watched, unwatch := context.WithCancel(running) // by the service manager
	defer unwatch()
	restart.Sockets = func() ([]handover.Socket, error) { return allSockets(all, metrics) }
	restart.HandOver = func(pid int) {
		// The manager is to know whom to listen to before the successor speaks.
		unwatch()
		if err := m.SucceededBy(pid); err != nil {
			log.Warn("service manager", "error", err)
		}
	}
	restart.Retire = func() {
		if metrics != nil {
			metrics.Close()
		}
		for _, s := range all {
			s.retire(handover.RetireTime)
		}
	}
	var told, served sync.WaitGroup
	told.Go(func() { restart.Run(running) })
	told.Go(func() {
		if err := m.KeepAlive(watched, func() bool { return !slices.ContainsFunc(all, func(s service) bool { return !s.alive() }) }); err != nil {
			log.Warn("service manager", "error", err)
		}
		<-running.Done()
		if !restart.Retired() {
			_ = m.Stopping("waiting for transfers to finish") // it is going to notice
		}
	})
	errs := make([]error, len(all))
	for i, s := range all {
		served.Go(func() {
			errs[i] = s.serve(running)
			// It ends because ctx has, or it failed; or the successor has all that
			// comes, and the other services have not ended yet.
			if restart.Ended(s.name()); !restart.Retired() {
				end()
			}
		})
	}
	served.Wait()
	end()
	told.Wait() // or the process might be gone before that is said
	return errors.Join(errs...)
}

// startSpawner starts what starts a successor.
func startSpawner(env []string) (*handover.Spawner, error) {
	s, err := handover.StartSpawner(env)
	switch {
	case errors.Is(err, handover.ErrProcessOne) || errors.Is(err, handover.ErrNoRestart):
		return nil, usagef("restartable", "--restartable: %w", err)
	case err != nil:
		return nil, fmt.Errorf("--restartable: %w", err)
	}
	return s, nil
}

// A signalError is the cause of a context's end that names a signal.
type signalError interface {
	error
	Signal() os.Signal
}

// logSignal has the signal logged that ends ctx. It returns what waits for the line.
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

// allSockets returns what a successor needs to take over.
func allSockets(all []service, metrics *metricsServer) (sockets []handover.Socket, err error) {
	for _, s := range all {
		some, failed := s.sockets()
		sockets, err = append(sockets, some...), errors.Join(err, failed)
	}
	if metrics != nil {
		some, failed := handover.FromListeners(handover.Metrics, metrics.socket)
		sockets, err = append(sockets, some...), errors.Join(err, failed)
	}
	if err != nil {
		handover.CloseSockets(sockets)
		return nil, err
	}
	return sockets, nil
}
