// Package tftpd is the TFTP service of "haul serve".
package tftpd

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/server/handover"
	"github.com/haul-project/haul/cmd/haul/internal/server/meter"
	"github.com/haul-project/haul/cmd/haul/internal/server/ports"
	"github.com/haul-project/haul/cmd/haul/internal/server/publicfiles"
	"github.com/haul-project/haul/cmd/haul/internal/server/service"
	"github.com/haul-project/haul/cmd/haul/internal/server/settings"
	"github.com/haul-project/haul/cmd/haul/internal/server/site"
	"github.com/haul-project/haul/cmd/haul/internal/server/userroots"
	"github.com/haul-project/haul/cmd/haul/internal/system/ownprocess"
	"github.com/haul-project/haul/cmd/haul/internal/system/privilege"
	"github.com/haul-project/haul/cmd/haul/internal/tftp/trace"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/localdir"
	"github.com/haul-project/haul/tftp"
	"github.com/haul-project/haul/tftp/tftpclient"
	"github.com/haul-project/haul/tftp/transfer"
)

// A Service serves TFTP.
type Service struct {
	cfg      *settings.Config
	env      *service.Env
	srv      *tftp.Config
	files    *publicfiles.Files
	small    localdir.SmallFiles
	tracer   *trace.Recorder // records packets; nil without --trace and --pcap
	listener *tftp.Server    // nil before Listen
	asked    []string        // the configured addresses of listener; "" for a socket from systemd
	shared   bool            // transfers of the predecessor still use the sockets
	waits    atomic.Bool     // Serve waits until the transfers of the predecessor have ended
}

// New opens everything that TFTP needs except its sockets.
func New(cfg *settings.Config, env *service.Env) (_ *Service, err error) {
	t := &Service{cfg: cfg, env: env, srv: server(cfg)}
	defer func() {
		if err != nil {
			t.Close()
		}
	}()
	t.srv.Log = env.Log
	if t.files, err = publicfiles.Open(cfg, env, &t.small); err != nil {
		return nil, err
	}
	answerFrom(t.srv, t.files.Site, cfg.TFTP.UploadParents)
	if t.tracer, err = cfg.Trace.Open(env.Out); err != nil {
		return nil, failure.InSetting("pcap", failure.Local.Errorf("write %s: %w", cfg.Trace.Pcap, console.WithoutPath(err)))
	}
	if t.tracer != nil {
		t.srv.Hooks.Trace = t.tracer.Datagram
		t.srv.Log = slog.New(tracedLog{env.Log.Handler(), t.tracer})
	}
	if env.Counts != nil {
		countTransfers(t.srv, env.Counts)
	}
	return t, nil
}

// server returns a tftp.Config with the settings of TFTP.
func server(cfg *settings.Config) *tftp.Config {
	return &tftp.Config{
		SinglePort:   cfg.TFTP.SinglePort,
		FirstPort:    cfg.TFTP.FirstPort,
		LastPort:     cfg.TFTP.LastPort,
		MTU:          cfg.TFTP.MTU,
		MaxUpload:    cfg.Files.MaxUpload,
		MaxTransfers: cfg.TFTP.MaxTransfers,
		MaxPerClient: cfg.TFTP.MaxPerClient,
		Rate:         cfg.TFTP.Rate,
		Bandwidth:    cfg.TFTP.Bandwidth,
		Rules:        slices.Concat(cfg.TFTP.Refuse, cfg.TFTP.Rollover),
		Memory:       cfg.TFTP.Memory,
		Loops:        cfg.TFTP.Loops,
		Grace:        cfg.Grace,
		Limits:       transfer.Limits{BlockSize: cfg.TFTP.BlockSize, Window: cfg.TFTP.WindowSize},
		Plain:        cfg.TFTP.NoOffload,
		Allow:        cfg.Allow,
		Deny:         cfg.Deny,

		BandwidthPerClient: cfg.TFTP.BandwidthPerClient,
	}
}

// Secrets returns nothing: TFTP has no secrets.
func (t *Service) Secrets() []userroots.Secret { return nil }

// KeepSecret returns an error if a served directory contains a secret.
func (t *Service) KeepSecret(all []userroots.Secret) error { return t.files.KeepSecret(all) }

// Close closes the sockets, the trace and the files.
func (t *Service) Close() {
	if t.listener != nil {
		_ = t.listener.Close()
	}
	if t.tracer != nil {
		for _, problem := range t.tracer.Finish() {
			fmt.Fprintf(t.env.Out, "haul: %s\n", console.Visible(problem.Error()))
		}
	}
	if t.files != nil {
		t.files.Close()
	}
}

// Listen opens the sockets, unless systemd or a predecessor has opened them.
func (t *Service) Listen(ctx context.Context, passed *handover.Inherited) (err error) {
	share := service.Share(t.cfg, ownprocess.OpenFiles())
	t.small.Max = min(service.SmallFiles, share/8)
	fitDescriptors(t.srv, t.cfg.Files.Upload, share-t.small.Max)
	err = t.listenAt(ctx, passed, t.cfg.TFTP.Listen)
	if err == nil {
		return nil
	}
	other := ports.Fallback{Name: handover.TFTP, Asked: t.cfg.TFTP.Listen, Other: t.cfg.TFTP.Fallback, Rival: ports.RivalAt(passed, "udp", t.cfg.TFTP.Listen...)}.After(err, t.env)
	if other != nil {
		err = t.listenAt(ctx, passed, other)
	}
	return err
}

func (t *Service) listenAt(ctx context.Context, passed *handover.Inherited, addrs []string) (err error) {
	var places []tftp.Place
	t.asked, t.shared = nil, false
	for _, p := range passed.Datagram(addrs) {
		places = append(places, tftp.Place{Addr: p.Addr, Conns: p.Conns})
		t.asked, t.shared = append(t.asked, p.Addr), t.shared || p.Shared
	}
	if t.listener, err = t.srv.ListenAt(ctx, places...); err != nil {
		return ports.ListenError(handover.TFTP, err, ports.RivalAt(passed, "udp", addrs...))
	}
	return nil
}

// RegisterMetrics registers the counters of the service.
func (t *Service) RegisterMetrics(counts *meter.Registry) {
	registerMetrics(counts, t.listener)
}

// Announce prints the addresses that the server listens on, and a command to try.
func (t *Service) Announce() {
	for i, a := range t.listener.Addrs() {
		shown, host := ports.ShownAddr(a, t.asked[i])
		t.env.Say("serving %s on tftp://%s", strings.Join(t.cfg.Dirs, ", "), shown)
		if i == 0 {
			example := tftpclient.Target{Host: host.String(), Port: a.Port(), Name: t.sampleName(a)}
			t.env.Say("try: haul get %v -", example)
		}
	}
}

// Addrs returns the addresses that the server listens on. Before Listen there are no addresses.
func (t *Service) Addrs() []netip.AddrPort {
	if t.listener == nil {
		return nil
	}
	return t.listener.Addrs()
}

// SandboxPaths adds the served directories.
func (t *Service) SandboxPaths(c *privilege.Confinement) { t.files.SandboxPaths(c) }

// StartBackground starts to look after the upload directories: see [publicfiles.Files.Maintain].
func (t *Service) StartBackground(ctx context.Context) {
	go t.files.Maintain(ctx, handover.TFTP, service.SayTo(t.srv.Log)) // in the background, because a disk may hang
}

// Serve serves until ctx has ended and the transfers are done.
func (t *Service) Serve(ctx context.Context) error {
	if t.shared {
		// While the predecessor's transfers last, the predecessor receives all datagrams of the
		// shared sockets. Clients repeat their requests until this process receives them.
		t.waits.Store(true)
		t.env.Predecessor.Wait(ctx, handover.TFTP)
		t.waits.Store(false)
	}
	return t.listener.Serve(ctx)
}

// Sockets returns duplicates of the sockets, for a successor.
func (t *Service) Sockets() (all []handover.Socket, err error) {
	files, err := t.listener.Files()
	for i, same := range files {
		for _, f := range same {
			all = append(all, handover.Socket{Service: handover.TFTP, Addr: t.asked[i], Shared: t.cfg.TFTP.SinglePort, File: f})
		}
	}
	return all, err
}

// Retire makes Serve return once the transfers under way are done, or after limit. With a single
// port, no transfer can begin in the successor until then, so the limit is at most the grace
// period.
func (t *Service) Retire(limit time.Duration) {
	if t.cfg.TFTP.SinglePort {
		limit = min(limit, t.cfg.Grace)
	}
	t.listener.Retire(limit)
}

// Name returns the name of the service in a handover.
func (t *Service) Name() string { return handover.TFTP }

// Alive reports whether each loop has taken a turn since the last call. While Serve waits for the
// predecessor, Alive returns true.
func (t *Service) Alive() bool { return t.waits.Load() || t.listener.Alive() }

// String describes the service for the service manager.
func (t *Service) String() string { return fmt.Sprintf("TFTP on %v", t.listener.Addrs()) }

// sampleName returns the name of a file that a client on this machine can fetch from the address
// at, for the example that Announce prints.
func (t *Service) sampleName(at netip.AddrPort) string {
	here := site.Client{Peer: netip.AddrFrom4([4]byte{127, 0, 0, 1}), Local: at}
	entries, _ := os.ReadDir(t.cfg.Dirs[0]) // after an error, the example has no file name
	for _, e := range entries[:min(len(entries), maxSamples)] {
		info, err := t.files.Site.Stat(context.Background(), here, e.Name())
		if err == nil && info.Mode().IsRegular() && info.Size() > 0 && e.Name()[0] != '.' {
			return e.Name()
		}
	}
	return "FILE"
}

const maxSamples = 1000 // how many names in a directory are tried for the example

// answerFrom makes a server answer requests by the rules of a site. With parents, uploads create
// missing directories.
func answerFrom(srv *tftp.Config, s *site.Site, parents bool) {
	client := func(r *tftp.Request) site.Client {
		return site.Client{Peer: r.Peer.Addr(), Local: r.Local}
	}
	srv.Read = func(ctx context.Context, r *tftp.Request) (store.File, error) {
		return s.Open(ctx, client(r), r.Name)
	}
	srv.Write = func(ctx context.Context, r *tftp.Request) (store.Upload, error) {
		c := r.Create()
		c.Parents = parents
		return s.Create(ctx, client(r), r.Name, c)
	}
}
