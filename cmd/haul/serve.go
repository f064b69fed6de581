package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"strings"
	"sync"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/haul-project/haul/internal/privilege"
	"github.com/haul-project/haul/meter"
	"github.com/haul-project/haul/site"
	"github.com/haul-project/haul/tftp"
	"github.com/haul-project/haul/udp"
)

// fallbackAddr is where the server listens without the privilege for port 69.
const fallbackAddr = ":6969"

const serveHelp = `Serve the files under DIR until a signal ends it. At the first signal running
transfers get --grace to finish; the second ends at once. Of several DIRs the
first that has a file serves it, and uploads go to the first.

Nothing outside DIR can be read or written: not by "..", nor by a symbolic
link. Clients may write only with --upload; an upload appears under its name
when it is whole and safe on disk, and never before. Once everything is open
the kernel is told to deny haul all other files, where it can (Landlock).

Which client gets which file:
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

Each transfer leaves one line in the log on standard error.`

const serveExamples = `  haul serve /srv/tftp                       on port 69, or 6969 without privilege
  haul serve . --tftp 127.0.0.1:6969         on one address
  haul serve /srv/tftp --upload create       clients may add files, not replace any
  haul serve /srv/tftp --upload unique --upload-dir /srv/logs
                                             uploads get a time stamp, and cannot be read
  haul serve /srv/tftp --single-port         in a container, or behind NAT
  haul serve /srv/tftp --user tftp --metrics 127.0.0.1:9069
  haul serve /srv/tftp --trace=192.0.2.7     show the packets of one client`

func newServe() *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:     "serve DIR...",
		Short:   "Serve the files of a directory",
		Long:    serveHelp,
		Example: serveExamples,
		Args:    args(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.dirs, f.mayFallBack = args, !cmd.Flags().Changed("tftp")
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

// serve runs the server until ctx ends.
func serve(ctx context.Context, f *serveFlags, out io.Writer) error {
	srv, err := f.server()
	if err != nil {
		return err
	}
	user, err := userToBecome(f.user)
	if err != nil {
		return err
	}
	srv.Log = f.log(out)
	files, err := f.open()
	if err != nil {
		return err
	}
	defer files.close()
	answerFrom(srv, files.site)

	tracer, err := f.trace.open(out)
	if err != nil {
		return err
	}
	defer closeTrace(tracer, out)
	if tracer != nil {
		srv.Trace = tracer.record
	}
	var counts *meter.Registry
	if f.metrics != "" {
		counts = measure(srv)
	}
	manager, err := findManager()
	if err != nil {
		return err
	}
	defer manager.Close()
	f.fitDescriptors(srv, openFiles())
	l, err := f.listen(ctx, srv, out)
	if err != nil {
		return err
	}
	defer l.Close()
	if counts != nil {
		show(counts, l)
		m, err := serveMetrics(ctx, f.metrics, counts.Handler(), srv.Log)
		if err != nil {
			return err
		}
		defer m.Close()
		f.say(out, "metrics at http://%v/metrics", m.Addr())
	}
	f.announce(out, files, l.Addrs())
	f.boundHeap()
	needs := privilege.Confinement{Read: append(files.reads, "/proc/self"), Write: files.writes}
	if err := giveUp(user, needs, srv.Log); err != nil {
		return err
	}
	go files.sweep(ctx, srv.Log)
	return runListener(ctx, l, manager, srv.Log)
}

// runListener serves, and keeps the service manager informed.
func runListener(ctx context.Context, l *tftp.Listener, m *manager, log *slog.Logger) error {
	if err := m.ready(fmt.Sprintf("serving TFTP on %v", l.Addrs())); err != nil {
		log.Warn("service manager", "error", err)
	}
	serving, ended := context.WithCancel(ctx)
	var told sync.WaitGroup
	told.Go(func() {
		if err := m.keepAlive(serving, l.Alive); err != nil {
			log.Warn("service manager", "error", err)
		}
		<-serving.Done()
		_ = m.stopping("waiting for transfers to finish") // it is going to notice
	})
	err := l.Serve(ctx)
	ended()
	told.Wait() // or the process might be gone before that is said
	return err
}

// listen opens the sockets, unless systemd has done so.
func (f *serveFlags) listen(ctx context.Context, srv *tftp.Server, out io.Writer) (*tftp.Listener, error) {
	conns, err := activated(udp.Config{Plain: f.noOffload})
	if err != nil {
		return nil, err
	}
	if len(conns) > 0 {
		l, err := srv.ListenOn(ctx, conns...)
		if err != nil {
			return nil, listenError{err}
		}
		return l, nil
	}
	return f.listenAt(ctx, srv, f.tftp, f.mayFallBack, out)
}

// listenAt opens the sockets, on another port than 69 if that takes a
// privilege we lack and the user did not ask for it.
func (f *serveFlags) listenAt(ctx context.Context, srv *tftp.Server, addrs []string, mayFallBack bool, out io.Writer) (*tftp.Listener, error) {
	l, err := srv.Listen(ctx, addrs...)
	switch {
	case err == nil:
		return l, nil
	case errors.Is(err, syscall.EACCES) && mayFallBack:
		f.say(out, "no privilege for port %d, taking %s instead (root, or the capability CAP_NET_BIND_SERVICE, gives it)", tftp.Port, fallbackAddr)
		return f.listenAt(ctx, srv, []string{fallbackAddr}, false, out)
	case errors.Is(err, syscall.EACCES):
		err = fmt.Errorf("%w: ports below 1024 take root or CAP_NET_BIND_SERVICE; try --tftp %s", err, fallbackAddr)
	case errors.Is(err, tftp.ErrNoPort):
		err = fmt.Errorf("%w: --ports %s needs a free port for each address of --tftp, and one more for each processor is better", err, f.ports)
	case errors.Is(err, syscall.EINVAL):
		err = fmt.Errorf("%w: an address that begins with fe80: needs its interface, as in [fe80::1%%eth0]:69", err)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		err = fmt.Errorf("%w: this machine has no such address; \"ip address\" lists those it has", err)
	case errors.Is(err, syscall.EADDRINUSE):
		err = fmt.Errorf("%w: another server has that port; end it, or choose another with --tftp", err)
	}
	return nil, listenError{err}
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

// announce says where the server listens, and a command to try.
func (f *serveFlags) announce(out io.Writer, files *served, at []netip.AddrPort) {
	for i, a := range at {
		// "[::]" stands for both families unless IPv6 was asked for.
		only6 := i < len(f.tftp) && strings.HasPrefix(f.tftp[i], "[")
		shown := a.String()
		if a.Addr().IsUnspecified() && a.Addr().Is6() && !only6 {
			shown = fmt.Sprintf("*:%d", a.Port())
		}
		f.say(out, "serving %s on tftp://%s", strings.Join(f.dirs, ", "), shown)
		if i > 0 {
			continue
		}
		host := a.Addr()
		switch {
		case host.IsUnspecified() && only6:
			host = netip.IPv6Loopback()
		case host.IsUnspecified():
			host = netip.AddrFrom4([4]byte{127, 0, 0, 1})
		}
		t := tftp.Target{Host: host.String(), Port: a.Port(), Name: f.sampleName(files, a)}
		f.say(out, "try: haul get %v -", t)
	}
}

// sampleName returns a file that can be asked for, to make the example true.
func (f *serveFlags) sampleName(files *served, at netip.AddrPort) string {
	here := site.Client{Peer: netip.AddrFrom4([4]byte{127, 0, 0, 1}), Local: at}
	entries, _ := os.ReadDir(f.dirs[0]) // an example is all that is at stake
	for _, e := range entries[:min(len(entries), maxSamples)] {
		info, err := files.site.Stat(context.Background(), here, e.Name())
		if err == nil && info.Mode().IsRegular() && info.Size() > 0 && e.Name()[0] != '.' {
			return e.Name()
		}
	}
	return "FILE"
}

const maxSamples = 1000 // names that are tried for the example

// unwrapPath takes the operation and path off an error that will name them
// itself.
func unwrapPath(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}
