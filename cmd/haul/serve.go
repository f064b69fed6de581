package main

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

	"github.com/spf13/cobra"

	"github.com/haul-project/haul/internal/handover"
	"github.com/haul-project/haul/internal/privilege"
	"github.com/haul-project/haul/meter"
	"github.com/haul-project/haul/udp"
)

const serveHelp = `Serve the files under DIR by TFTP, SFTP, HTTP or HTTPS, until a signal ends it.
--tftp, --sftp, --http and --https choose the protocols; without them it is TFTP alone.
After the first signal, transfers under way have --grace to finish; a second signal
ends haul at once.

Nothing outside DIR can be read or written, neither by ".." nor through a symbolic
link. An upload gets its name when it is whole and safe on disk, and never before.
Once all is open, the kernel denies haul every other file, where it can (Landlock).

SFTP users log in. --users FILE names them; without it, haul takes the file that
"haul user" has made. If there is none, one user gets a password for this run, which
haul prints. This user may read, with --upload create also add files, and with
--upload overwrite change and remove all.

The users file says what each user may do, how fast, and in which directory: see
"haul user --help". A change takes effect within seconds, and disconnects sessions
whose login would be refused now. Three wrong passwords block further passwords from
that address for a time; keys still work.

The host key is made at the first start, and kept (--host-keys). SFTP users get no
shell and no forwarding; md5sum, sha1sum and sha256sum are answered, for rclone.

HTTP is open to everybody. With --http-auth FILE, users log in with a password over
HTTPS, and may do what that file says. Behind a proxy that does TLS, --http-plain-auth
takes passwords over HTTP, and --http-proxy has the proxy say who each client is.

GET takes ranges and conditions. For a directory it sends its index.html (--index);
with --listing, it lists a directory that has none. PUT makes missing directories, and
can resume an upload that was cut off.

TFTP has no users, nor has HTTP without --http-auth: anybody may read, and write only
with --upload. Names that begin with a dot, and all below them, do not exist there
without --hidden, except .well-known.

Of several DIRs, the first that has a file serves it; uploads go to the first. Over
TFTP, and HTTP without --http-auth, these select what a client gets:
  --root CLIENT=DIR gives some clients another directory. CLIENT is an address
    or network, a hardware address, or on=ADDRESS, where the client asked;
    several are separated by commas: --root 52:54:00:12:34:56,10.1.0.0/16=/srv/lab
  --per-client gives each client a directory below DIR, named by its address
    (192.0.2.7) or hardware address (52-54-00-12-34-56), if it exists
  --map rewrites names by the rules of a file, as tftpd-hpa's -m does;
    "haul map test" shows what becomes of a name
  --access RULE is "allow" or "deny", then "read", "write" or "all", then
    CLIENT or *, then a pattern of names if not for all; the first that fits
    decides: --access 'deny read * *.key' --access 'allow write 10.0.0.0/8 logs/**'

With --restartable, the signal SIGUSR2 starts haul anew, as after an update, and
disconnects nobody. The new process has the same arguments, and takes over the sockets
when it is ready. The old one accepts nothing more, and ends with its last connection,
or after an hour. If the new process fails, the old one continues to serve. With
--single-port, transfers under way have --grace to finish.

Each transfer, login and change is logged on standard error, in one line.`

const serveExamples = `  haul serve /srv/tftp                       on port 69, or 6969 without privilege
  haul serve . --tftp 127.0.0.1:6969         on one address
  haul serve /srv/tftp --upload create       clients may add files, not replace any
  haul serve /srv/tftp --upload unique --upload-dir /srv/logs
                                             uploads get a time stamp, and cannot be read
  haul serve /srv/tftp --single-port         in a container, or behind NAT
  haul serve /srv/tftp --user tftp --metrics 127.0.0.1:9069
  haul serve /srv/tftp --trace=192.0.2.7     show the packets of one client
  haul serve /srv/files --sftp :2022         SFTP, for one user with a password for this run
  haul serve . --sftp :2022 --upload overwrite
                                             the same, and the user may write
  haul serve /srv/files --sftp :22 --user haul --users /etc/haul/users
  haul serve /srv/files --sftp :22 --tftp :69 --http :80
                                             what SFTP brings, TFTP and HTTP serve
  haul serve /srv/boot --http :80 --listing  for UEFI HTTP boot, iPXE and browsers
  haul serve /srv/files --https :443 --cert fullchain.pem --key privkey.pem --http-auth /etc/haul/users`

func newServe() *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:     "serve DIR...",
		Short:   "Serve the files of a directory",
		Long:    serveHelp,
		Example: serveExamples,
		Args:    args(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.dirs = args
			if err := f.choose(cmd.Flags().Changed); err != nil {
				return err
			}
			return serve(cmd.Context(), &f, cmd.ErrOrStderr())
		},
	}
	f.add(cmd)
	cmd.ValidArgsFunction = func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return nil, cobra.ShellCompDirectiveFilterDirs
	}
	return cmd
}

// giveUp is [settle], but for tests: it cannot be undone in a process.
var giveUp = settle

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

// serve runs the server until ctx ends.
func serve(ctx context.Context, f *serveFlags, out io.Writer) error {
	if err := f.check(); err != nil {
		return err
	}
	user, err := userToBecome(f.user)
	if err != nil {
		return err
	}
	env := os.Environ() // some of it is taken out, being for this process alone
	before, err := handover.FindPredecessor()
	if err != nil {
		return err
	}
	defer before.Close()
	log, counts := f.log(out), f.counts()
	var all []service
	defer func() {
		for _, s := range all {
			s.close()
		}
	}()
	if f.servesTFTP() {
		t, err := f.openTFTP(before, counts, log, out)
		if err != nil {
			return err
		}
		all = append(all, t)
	}
	if f.servesSFTP() {
		s, err := f.openSFTP(ownUsers(user), counts, log, out)
		if err != nil {
			return err
		}
		all = append(all, s)
	}
	if f.servesHTTP() {
		h, err := f.openHTTP(ownUsers(user), counts, log, out)
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
	passed, err := handover.Inherit(udp.Config{Plain: f.noOffload}, f.services(), f.web.unixProxies, before.Take())
	if err != nil {
		return listenError{err}
	}
	defer passed.Close()
	restart := &handover.Restarter{Log: log}
	if f.restartable {
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
		m, err := serveMetrics(ctx, f.metrics, passed.Metrics(), counts.Handler(), log)
		if err != nil {
			return err
		}
		defer m.Close()
		metrics = m
		f.say(out, "metrics at http://%v/metrics", m.Addr())
	}
	needs := privilege.Confinement{Read: []string{"/proc/self"}}
	for _, s := range all {
		s.announce()
		s.needs(&needs)
	}
	f.boundHeap()
	f.boundThreads()
	if err := giveUp(user, needs, log); err != nil {
		return err
	}
	if err := before.Ready(ctx); err != nil {
		return err
	}
	return runAll(ctx, all, metrics, manager, restart, log, f.grace)
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
		return nil, usagef("--restartable: %w", err)
	case err != nil:
		return nil, fmt.Errorf("--restartable: %w", err)
	}
	return s, nil
}

// logSignal has the signal logged that ends ctx. It returns what waits for the line.
func logSignal(ctx context.Context, log *slog.Logger, grace time.Duration) (wait func()) {
	logged := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(logged)
		if caught, ok := errors.AsType[caughtSignal](context.Cause(ctx)); ok {
			log.Info("signal received: accepting nothing more, and waiting for transfers; the next signal ends at once",
				"signal", caught.signal.String(), "grace", grace)
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

// A listenError says that a server could not open its sockets.
type listenError struct{ error }

func (e listenError) Unwrap() error { return e.error }

// say tells something that is no line of the log, but looks like one where each
// line must be JSON.
func (f *serveFlags) say(out io.Writer, format string, args ...any) {
	if text := fmt.Sprintf(format, args...); f.logFormat == "json" {
		slog.New(slog.NewJSONHandler(out, nil)).Info(text)
	} else {
		fmt.Fprintf(out, "haul: %s\n", text)
	}
}
