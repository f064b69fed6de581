package serve

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/haul-project/haul/internal/handover"
	"github.com/haul-project/haul/internal/privilege"
	"github.com/haul-project/haul/internal/proxydhcp"
	"github.com/haul-project/haul/internal/source"
	"github.com/haul-project/haul/meter"
	"github.com/haul-project/haul/pxe"
	"github.com/haul-project/haul/site"
	"github.com/haul-project/haul/store"
)

// bootAddrs name the files of a bootService in a handover: sockets, and what it remembers.
var bootAddrs = []string{fmt.Sprintf(":%d", pxe.PortDHCP), fmt.Sprintf(":%d", pxe.PortPXE), "memory"}

// A bootService answers machines that boot from the network, beside their DHCP server.
type bootService struct {
	*proxydhcp.Service
	cfg    *Config
	out    io.Writer
	files  *publicFiles
	others []service // for the ports that clients are sent to

	planned bool // nothing will be opened
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
	cfg.requested = func(c site.Client, name string) { s.Requested(c.Peer, name) }
	return &bootService{Service: s, cfg: cfg, out: out, files: files}, nil
}

func (b *bootService) secrets() []secret                     { return nil }
func (b *bootService) keepSecret(all []secret) error         { return b.files.keepSecret(all) }
func (b *bootService) name() string                          { return handover.Boot }
func (b *bootService) alive() bool                           { return b.Serving() }
func (b *bootService) registerMetrics(r *meter.Registry)     { b.RegisterMetrics(r) }
func (b *bootService) startBackground(ctx context.Context)   { go b.FindLoaders(ctx) }
func (b *bootService) retire(time.Duration)                  { b.Server.Close() } // an answer takes no time
func (b *bootService) serve(ctx context.Context) error       { return b.Serve(ctx) }
func (b *bootService) sandboxPaths(c *privilege.Confinement) { b.files.sandboxPaths(c) }

func (b *bootService) listen(ctx context.Context, passed *handover.Inherited) error {
	return b.Listen(ctx, passed.Boot(bootAddrs))
}

func (b *bootService) close() {
	b.Close()
	b.files.close()
}

// announce prints who is answered, and with which files.
func (b *bootService) announce() {
	b.Announce(b.clients(), func(format string, args ...any) { b.cfg.say(b.out, format, args...) })
}

// clients returns where clients are sent to. In a dry run nothing is open, and the settings
// count.
func (b *bootService) clients() proxydhcp.Clients {
	c := proxydhcp.Clients{
		Files: b.files.site.Roots[len(b.files.site.Roots)-1].Files, Dir: b.cfg.Dirs[0],
		Remote: slices.ContainsFunc(b.cfg.Dirs, source.IsRemote), Planned: b.planned,
	}
	if b.planned || b.cfg.Boot.DryRun {
		if b.cfg.ServesTFTP() {
			if at, err := net.ResolveUDPAddr("udp", b.cfg.TFTP.Listen[0]); err == nil {
				c.TFTPPort = at.AddrPort().Port()
			}
		}
		for _, addr := range b.cfg.HTTP.Listen {
			if at, err := net.ResolveTCPAddr("tcp", addr); err == nil && b.cfg.servesBootHTTP() {
				c.HTTP = append(c.HTTP, at.AddrPort())
			}
		}
		return c
	}
	for _, s := range b.others {
		switch s := s.(type) {
		case *tftpService:
			c.TFTPPort = s.listener.Addrs()[0].Port()
		case *httpService:
			for _, one := range s.plain.sockets {
				if at, err := netip.ParseAddrPort(one.Addr().String()); err == nil && b.cfg.servesBootHTTP() {
					c.HTTP = append(c.HTTP, at)
				}
			}
		}
	}
	return c
}

// servesBootHTTP reports whether boot clients, which cannot log in, get files by HTTP.
func (cfg *Config) servesBootHTTP() bool { return anyAddr(cfg.HTTP.Listen) && cfg.HTTP.Users == "" }

func (b *bootService) sockets() (all []handover.Socket, err error) {
	files, err := b.Files()
	for i, f := range files {
		all = append(all, handover.Socket{Service: handover.Boot, Addr: bootAddrs[i], File: f})
	}
	return all, err
}

// addBootFiles adds to the files of all clients what boot clients need besides: boot files of
// DIR/ipxe and of the directory for them, and the scripts that haul makes. Clients with another
// directory get the same boot files, which all offers name, and scripts for what is there.
func (cfg *Config) addBootFiles(s *publicFiles) error {
	last := len(s.site.Roots) - 1
	layers := []store.Store{s.site.Roots[last].Files}
	for _, dir := range cfg.Boot.LoaderDirs(cfg.Dirs[0]) {
		layer, err := s.openTree(cfg, dir, false)
		if err != nil {
			return err
		}
		layers = append(layers, layer)
	}
	for i := range s.site.Roots {
		root := &s.site.Roots[i]
		scripts := proxydhcp.Scripts(root.Files, cfg.Boot.Default, cfg.Boot.Timeout)
		if i == last {
			root.Files = store.Layers(append(layers, scripts)...)
		} else {
			root.Files = store.Layers(root.Files, cfg.Boot.BootFiles(store.Layers(layers...)), scripts)
		}
	}
	return nil
}
