package serve

import (
	"context"
	"fmt"
	"io"
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
	"github.com/haul-project/haul/cmd/haul/internal/server/site"
	"github.com/haul-project/haul/cmd/haul/internal/server/userroots"
	"github.com/haul-project/haul/cmd/haul/internal/system/ownprocess"
	"github.com/haul-project/haul/cmd/haul/internal/system/privilege"
	"github.com/haul-project/haul/cmd/haul/internal/tftp/trace"
	"github.com/haul-project/haul/store/localdir"
	"github.com/haul-project/haul/tftp"
	"github.com/haul-project/haul/tftp/tftpclient"
	"github.com/haul-project/haul/tftp/transfer"
)

// A tftpService serves TFTP.
type tftpService struct {
	cfg      *Config
	out      io.Writer
	srv      *tftp.Config
	files    *publicFiles
	small    localdir.SmallFiles
	tracer   *trace.Recorder       // nil without --trace and --pcap
	listener *tftp.Server          // nil before listen
	asked    []string              // the addresses of listener as configured; "" is systemd's
	before   *handover.Predecessor // nil if there is none
	shared   bool                  // transfers of the predecessor use the sockets
	waits    atomic.Bool           // serve waits for the predecessor
}

// openTFTP opens what TFTP needs except its sockets. counts may be nil.
func (cfg *Config) openTFTP(before *handover.Predecessor, counts *meter.Registry, log *slog.Logger, out io.Writer) (_ *tftpService, err error) {
	t := &tftpService{cfg: cfg, out: out, srv: cfg.server(), before: before}
	defer func() {
		if err != nil {
			t.close()
		}
	}()
	t.srv.Log = log
	if t.files, err = cfg.openPublicFiles(&t.small); err != nil {
		return nil, err
	}
	answerFrom(t.srv, t.files.site, cfg.TFTP.UploadParents)
	if t.tracer, err = cfg.Trace.Open(out); err != nil {
		return nil, inSetting("pcap", failure.Local.Errorf("write %s: %w", cfg.Trace.Pcap, console.WithoutPath(err)))
	}
	if t.tracer != nil {
		t.srv.Hooks.Trace = t.tracer.Datagram
		t.srv.Log = slog.New(tracedLog{log.Handler(), t.tracer})
	}
	if counts != nil {
		countTransfers(t.srv, counts)
	}
	return t, nil
}

// server returns a server with the settings of TFTP.
func (cfg *Config) server() *tftp.Config {
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

func (t *tftpService) secrets() []userroots.Secret { return nil }

func (t *tftpService) keepSecret(all []userroots.Secret) error { return t.files.keepSecret(all) }

func (t *tftpService) close() {
	if t.listener != nil {
		_ = t.listener.Close()
	}
	if t.tracer != nil {
		for _, problem := range t.tracer.Finish() {
			fmt.Fprintf(t.out, "haul: %s\n", console.Visible(problem.Error()))
		}
	}
	if t.files != nil {
		t.files.close()
	}
}

// listen opens the sockets, unless systemd or a predecessor has done so.
func (t *tftpService) listen(ctx context.Context, passed *handover.Inherited) (err error) {
	share := t.cfg.shareOf(ownprocess.OpenFiles())
	t.small.Max = min(smallFiles, share/8)
	t.cfg.fitDescriptors(t.srv, share-t.small.Max)
	err = t.listenAt(ctx, passed, t.cfg.TFTP.Listen)
	if err != nil && t.cfg.TFTP.FallBack {
		if other := t.cfg.fallBack(t.out, handover.TFTP, t.cfg.TFTP.Listen, err, rivalAt(passed, "udp", t.cfg.TFTP.Listen...)); other != nil {
			err = t.listenAt(ctx, passed, other)
		}
	}
	return err
}

func (t *tftpService) listenAt(ctx context.Context, passed *handover.Inherited, addrs []string) (err error) {
	var places []tftp.Place
	t.asked, t.shared = nil, false
	for _, p := range passed.Datagram(addrs) {
		places = append(places, tftp.Place{Addr: p.Addr, Conns: p.Conns})
		t.asked, t.shared = append(t.asked, p.Addr), t.shared || p.Shared
	}
	if t.listener, err = t.srv.ListenAt(ctx, places...); err != nil {
		return listenError(handover.TFTP, err, rivalAt(passed, "udp", addrs...))
	}
	return nil
}

func (t *tftpService) registerMetrics(counts *meter.Registry) {
	registerTFTPMetrics(counts, t.listener)
}

func (t *tftpService) announce() {
	t.cfg.announce(t.out, t.files, t.listener.Addrs(), t.asked)
}

func (t *tftpService) sandboxPaths(c *privilege.Confinement) { t.files.sandboxPaths(c) }

func (t *tftpService) startBackground(ctx context.Context) {
	go func() { // a disk that hangs delays nobody
		warnUnwritable("tftp", t.files.writes, func(level slog.Level, text string, attrs ...slog.Attr) {
			t.srv.Log.LogAttrs(ctx, level, text, attrs...)
		})
		t.files.sweep(ctx, t.srv.Log)
	}()
}

func (t *tftpService) serve(ctx context.Context) error {
	if t.shared {
		// Until the predecessor's transfers have ended, datagrams are for them; clients
		// repeat new requests.
		t.waits.Store(true)
		t.before.Wait(ctx, handover.TFTP)
		t.waits.Store(false)
	}
	return t.listener.Serve(ctx)
}

func (t *tftpService) sockets() (all []handover.Socket, err error) {
	files, err := t.listener.Files()
	for i, same := range files {
		for _, f := range same {
			all = append(all, handover.Socket{Service: handover.TFTP, Addr: t.asked[i], Shared: t.cfg.TFTP.SinglePort, File: f})
		}
	}
	return all, err
}

// retire limits transfers on a single port to the grace: until they have ended, no new
// one can begin.
func (t *tftpService) retire(limit time.Duration) {
	if t.cfg.TFTP.SinglePort {
		limit = min(limit, t.cfg.Grace)
	}
	t.listener.Retire(limit)
}

func (t *tftpService) name() string { return handover.TFTP }

func (t *tftpService) alive() bool { return t.waits.Load() || t.listener.Alive() }

func (t *tftpService) String() string { return fmt.Sprintf("TFTP on %v", t.listener.Addrs()) }

// announce prints where the server listens, and a command to try.
func (cfg *Config) announce(out io.Writer, files *publicFiles, at []netip.AddrPort, asked []string) {
	for i, a := range at {
		shown, host := shownAddr(a, asked[i])
		cfg.say(out, "serving %s on tftp://%s", strings.Join(cfg.Dirs, ", "), shown)
		if i == 0 {
			t := tftpclient.Target{Host: host.String(), Port: a.Port(), Name: cfg.sampleName(files, a)}
			cfg.say(out, "try: haul get %v -", t)
		}
	}
}

// shownAddr returns the address of a server as text, and the address at which this
// machine reaches it. The user wrote asked.
func shownAddr(a netip.AddrPort, asked string) (shown string, host netip.Addr) {
	// "[::]" stands for both families unless IPv6 was asked for.
	only6 := strings.HasPrefix(asked, "[")
	shown, host = a.String(), a.Addr()
	switch {
	case !host.IsUnspecified():
	case host.Is6() && only6:
		host = netip.IPv6Loopback()
	default:
		if host.Is6() {
			shown = fmt.Sprintf("*:%d", a.Port())
		}
		host = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	return shown, host
}

// sampleName returns a file that can be fetched, for the example.
func (cfg *Config) sampleName(files *publicFiles, at netip.AddrPort) string {
	here := site.Client{Peer: netip.AddrFrom4([4]byte{127, 0, 0, 1}), Local: at}
	entries, _ := os.ReadDir(cfg.Dirs[0]) // an error just leaves the example without a name
	for _, e := range entries[:min(len(entries), maxSamples)] {
		info, err := files.site.Stat(context.Background(), here, e.Name())
		if err == nil && info.Mode().IsRegular() && info.Size() > 0 && e.Name()[0] != '.' {
			return e.Name()
		}
	}
	return "FILE"
}

const maxSamples = 1000 // names tried for the example
