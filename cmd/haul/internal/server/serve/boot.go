package serve

import (
	"context"
	"io"
	"log/slog"
	"net/netip"
	"slices"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/boot/proxydhcp"
	"github.com/haul-project/haul/cmd/haul/internal/server/handover"
	"github.com/haul-project/haul/cmd/haul/internal/server/meter"
	"github.com/haul-project/haul/cmd/haul/internal/server/site"
	"github.com/haul-project/haul/cmd/haul/internal/server/source"
	"github.com/haul-project/haul/cmd/haul/internal/server/userroots"
	"github.com/haul-project/haul/cmd/haul/internal/system/privilege"
	"github.com/haul-project/haul/store"
)

// A bootService answers machines that boot from the network, beside their DHCP server.
type bootService struct {
	*proxydhcp.Service
	cfg    *Config
	out    io.Writer
	files  *publicFiles
	others []service // for the ports that clients are sent to
}

// openBoot opens what answers to boot clients need except the sockets. It comes before the
// services that serve the files, since it follows who fetches them.
func (cfg *Config) openBoot(log *slog.Logger, out io.Writer) (*bootService, error) {
	files, err := cfg.openPublicFiles(nil)
	if err != nil {
		return nil, err
	}
	s, err := proxydhcp.NewService(cfg.Boot, cfg.Trace.Text, log)
	if err != nil {
		files.close()
		return nil, err
	}
	s.Staged = cfg.notifier.Report.Boot
	cfg.requested = func(c site.Client, name string) { s.Requested(c.Peer, name) }
	return &bootService{Service: s, cfg: cfg, out: out, files: files}, nil
}

func (b *bootService) secrets() []userroots.Secret             { return nil }
func (b *bootService) keepSecret(all []userroots.Secret) error { return b.files.keepSecret(all) }
func (b *bootService) name() string                            { return handover.Boot }
func (b *bootService) alive() bool                             { return b.Serving() }
func (b *bootService) registerMetrics(r *meter.Registry)       { b.RegisterMetrics(r) }
func (b *bootService) startBackground(ctx context.Context)     { go b.FindLoaders(ctx) }
func (b *bootService) retire(time.Duration)                    { b.Server.Close() } // an answer takes no time
func (b *bootService) serve(ctx context.Context) error         { return b.Serve(ctx) }
func (b *bootService) sandboxPaths(c *privilege.Confinement)   { b.files.sandboxPaths(c) }

func (b *bootService) listen(ctx context.Context, passed *handover.Inherited) error {
	return b.Listen(ctx, passed.Boot(proxydhcp.FileNames))
}

func (b *bootService) close() {
	b.Close()
	b.files.close()
}

// announce prints who is answered, and with which files.
func (b *bootService) announce() {
	b.Announce(b.clients(), func(format string, args ...any) { b.cfg.say(b.out, format, args...) })
}

// clients returns where clients are sent to: by the settings in a dry run, which opens nothing.
func (b *bootService) clients() proxydhcp.Clients {
	last := b.files.site.Roots[len(b.files.site.Roots)-1]
	c := proxydhcp.Clients{Files: last.Files, Dir: b.cfg.Dirs[0], Remote: slices.ContainsFunc(b.cfg.Dirs, source.IsRemote)}
	if b.cfg.Boot.DryRun || !b.Opened() {
		c.TFTP, c.HTTP = proxydhcp.Planned(b.cfg.TFTP.Listen), proxydhcp.Planned(b.cfg.HTTP.Listen)
	}
	for _, s := range b.others {
		switch s := s.(type) {
		case *tftpService:
			if s.listener != nil {
				c.TFTP = s.listener.Addrs()
			}
		case *httpService:
			for _, one := range s.plain.sockets {
				at, _ := netip.ParseAddrPort(one.Addr().String())
				c.HTTP = append(c.HTTP, at)
			}
		}
	}
	if !b.cfg.servesBootHTTP() {
		c.HTTP = nil
	}
	return c
}

// servesBootHTTP reports whether boot clients, which cannot log in, get files by HTTP.
func (cfg *Config) servesBootHTTP() bool { return anyAddr(cfg.HTTP.Listen) && cfg.HTTP.Users == "" }

func (b *bootService) sockets() (all []handover.Socket, err error) {
	files, err := b.Files()
	for i, f := range files {
		all = append(all, handover.Socket{Service: handover.Boot, Addr: proxydhcp.FileNames[i], File: f})
	}
	return all, err
}

// addBootFiles adds what boot clients need besides to the files that are served.
func (cfg *Config) addBootFiles(s *publicFiles) error {
	var loaders []store.Store
	var served []*store.Store
	for _, dir := range cfg.Boot.LoaderDirs(cfg.Dirs[0]) {
		layer, err := s.openTree(cfg, dir, false)
		if err != nil {
			return inSetting("boot-loaders", err)
		}
		loaders = append(loaders, layer)
	}
	for i := range s.site.Roots {
		served = append(served, &s.site.Roots[i].Files)
	}
	cfg.Boot.AddFiles(served, loaders)
	return nil
}
