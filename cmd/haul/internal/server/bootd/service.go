// Package bootd is the service of "haul serve" that answers machines that boot from the network. It
// works next to their DHCP server.
package bootd

import (
	"context"
	"io"
	"net/netip"
	"slices"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/boot/proxydhcp"
	"github.com/haul-project/haul/cmd/haul/internal/boot/pxe"
	"github.com/haul-project/haul/cmd/haul/internal/server/handover"
	"github.com/haul-project/haul/cmd/haul/internal/server/meter"
	"github.com/haul-project/haul/cmd/haul/internal/server/publicfiles"
	"github.com/haul-project/haul/cmd/haul/internal/server/service"
	"github.com/haul-project/haul/cmd/haul/internal/server/settings"
	"github.com/haul-project/haul/cmd/haul/internal/server/site"
	"github.com/haul-project/haul/cmd/haul/internal/server/source"
	"github.com/haul-project/haul/cmd/haul/internal/server/userroots"
	"github.com/haul-project/haul/cmd/haul/internal/system/privilege"
)

// A Service answers boot clients.
type Service struct {
	// TFTP and HTTP return the addresses at which the TFTP and HTTP services listen, or nothing
	// before the service listens. A function is nil if its service does not run. The answers send
	// boot clients to these addresses.
	TFTP, HTTP func() []netip.AddrPort

	boot  *proxydhcp.Service
	cfg   *settings.Config
	env   *service.Env
	files *publicfiles.Files
}

// New opens everything that is needed to answer boot clients, except the sockets. Call it before
// the file services are opened, because it sets env.Requested, by which these services report the
// files that boot clients fetch.
func New(cfg *settings.Config, env *service.Env) (*Service, error) {
	files, err := publicfiles.Open(cfg, env, nil)
	if err != nil {
		return nil, err
	}
	boot, err := proxydhcp.NewService(cfg.Boot, cfg.Trace.Text, env.Log)
	if err != nil {
		files.Close()
		return nil, err
	}
	boot.Staged = env.Notifier.Report.Boot
	env.Requested = func(c site.Client, name string) { boot.Requested(c.Peer, name) }
	return &Service{boot: boot, cfg: cfg, env: env, files: files}, nil
}

// Secrets returns nothing: the service has no secrets.
func (s *Service) Secrets() []userroots.Secret { return nil }

// KeepSecret returns an error if a directory with offered files contains a secret.
func (s *Service) KeepSecret(all []userroots.Secret) error { return s.files.KeepSecret(all) }

// Listen opens the sockets, or takes over the sockets of a predecessor.
func (s *Service) Listen(ctx context.Context, passed *handover.Inherited) error {
	return s.boot.Listen(ctx, passed.Boot(proxydhcp.FileNames))
}

// RegisterMetrics registers the counters of the service.
func (s *Service) RegisterMetrics(counts *meter.Registry) { s.boot.RegisterMetrics(counts) }

// Announce prints which clients the service answers, and which files it offers to them.
func (s *Service) Announce() { s.boot.Announce(s.clients(), s.env.Say) }

// Advise writes the lines for the configuration of another DHCP server, which the settings name.
func (s *Service) Advise(out io.Writer) error { return s.boot.Advise(s.clients(), out) }

// Machines returns the machines that have booted recently, for the status page.
func (s *Service) Machines() []pxe.Machine { return s.boot.Machines() }

// clients returns the addresses that boot clients are sent to. Before the services listen, the
// addresses come from the settings.
func (s *Service) clients() proxydhcp.Clients {
	last := s.files.Site.Roots[len(s.files.Site.Roots)-1]
	c := proxydhcp.Clients{Files: last.Files, Dir: s.cfg.Dirs[0], Remote: slices.ContainsFunc(s.cfg.Dirs, source.IsRemote)}
	if s.cfg.Boot.DryRun || !s.boot.Opened() {
		c.TFTP, c.HTTP = proxydhcp.Planned(s.cfg.TFTP.Listen), proxydhcp.Planned(s.cfg.HTTP.Listen)
	} else {
		c.TFTP, c.HTTP = call(s.TFTP), call(s.HTTP)
	}
	if !s.cfg.ServesBootHTTP() {
		c.HTTP = nil
	}
	return c
}

// call calls a function. It returns nil if the function is nil.
func call(addrs func() []netip.AddrPort) []netip.AddrPort {
	if addrs == nil {
		return nil
	}
	return addrs()
}

// SandboxPaths adds the directories of the offered files.
func (s *Service) SandboxPaths(c *privilege.Confinement) { s.files.SandboxPaths(c) }

// StartBackground starts a goroutine that searches the served files for boot files again and again,
// and reports machines that have stopped sending requests.
func (s *Service) StartBackground(ctx context.Context) { go s.boot.FindLoaders(ctx) }

// Serve answers until ctx ends.
func (s *Service) Serve(ctx context.Context) error { return s.boot.Serve(ctx) }

// Sockets returns duplicates of the sockets, for a successor.
func (s *Service) Sockets() (all []handover.Socket, err error) {
	files, err := s.boot.Files()
	for i, f := range files {
		all = append(all, handover.Socket{Service: handover.Boot, Addr: proxydhcp.FileNames[i], File: f})
	}
	return all, err
}

// Retire closes the service at once, because no answer is under way for long.
func (s *Service) Retire(time.Duration) { s.boot.Server.Close() }

// Alive reports whether Serve is running.
func (s *Service) Alive() bool { return s.boot.Serving() }

// Name returns the name of the service in a handover.
func (s *Service) Name() string { return handover.Boot }

// String describes the service for the service manager.
func (s *Service) String() string { return s.boot.String() }

// Close closes the sockets and the files.
func (s *Service) Close() {
	s.boot.Close()
	s.files.Close()
}
