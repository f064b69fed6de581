package proxydhcp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/haul-project/haul/internal/failure"
	"github.com/haul-project/haul/meter"
	"github.com/haul-project/haul/pxe"
	"github.com/haul-project/haul/store"
)

// findLoadersEvery is how soon a boot file that has appeared is offered.
const findLoadersEvery = 5 * time.Second

// A Service is a [Server] by [Settings]: it offers the boot files that it finds, and logs,
// counts and announces its answers. The methods [Service.Listen], [Service.Announce],
// [Service.FindLoaders], [Server.Serve] and [Service.Close] are called in this order.
type Service struct {
	*Server
	settings Settings
	log      *eventLog
	links    []Interface // at the start
	clients  Clients
}

// Clients are where boot clients are sent to.
type Clients struct {
	Files    store.Store // the files that they get
	Dir      string      // the first directory of those, for people
	TFTPPort uint16      // 0 for none
	HTTPPort uint16      // 0 for none
}

// NewService returns a service with checked settings. With trace it logs each packet.
func NewService(s Settings, trace bool, log *slog.Logger) (*Service, error) {
	links, err := Interfaces(s.Interfaces)
	if err != nil {
		return nil, &failure.Error{Kind: failure.Usage, Setting: "interface", Err: fmt.Errorf("--interface: %w", err)}
	}
	b := &Service{settings: s, links: links}
	b.Server, err = New(Config{
		Rules: s.rules(nil, 0), Interfaces: s.Interfaces, Address: s.Address, DryRun: s.DryRun,
		Report: func(e Event) { b.log.report(e) },
	})
	if err != nil {
		return nil, failure.Usage.Wrap(err)
	}
	b.log = newEventLog(log, trace, s.DryRun)
	return b, nil
}

// String names the interfaces.
func (b *Service) String() string { return "boot clients on " + linkNames(b.links) }

// RegisterMetrics adds the counts.
func (b *Service) RegisterMetrics(r *meter.Registry) { b.log.registerMetrics(r, b.Server) }

// Listen opens the sockets, or takes those of a predecessor, as [Server.Files] returned
// them, and closes these files.
func (b *Service) Listen(ctx context.Context, passed []*os.File) error {
	if len(passed) > 0 {
		defer closeFiles(passed)
		return failure.Listen.Wrap(b.Adopt(passed))
	}
	err := b.Open(ctx)
	if errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.EPERM) {
		err = fmt.Errorf("%w: answers to boot clients need root, or CAP_NET_BIND_SERVICE and beside another DHCP server of this machine CAP_NET_RAW", err)
	}
	if err != nil {
		return failure.Listen.Errorf("answer boot clients: %w", err)
	}
	return nil
}

// Close closes the sockets, and writes the rest of the log.
func (b *Service) Close() {
	b.Server.Close()
	b.log.Close()
}

// Announce looks for boot files, and has say print who is answered with which of them.
func (b *Service) Announce(c Clients, say func(format string, args ...any)) {
	b.clients = c
	offered := b.offer(context.Background())
	how := "answering boot clients on %s (ProxyDHCP on ports %d and %d); your DHCP server gives them addresses"
	if b.settings.DryRun {
		how = "deciding about boot clients on %s (ProxyDHCP on ports %d and %d), and sending nothing"
	}
	say(how, linkNames(b.links), pxe.PortDHCP, pxe.PortPXE)
	if b.Shares() {
		say("another DHCP server of this machine has port %d; both get what clients send", pxe.PortDHCP)
	}
	var have []string
	for _, arch := range slices.Sorted(maps.Keys(offered)) {
		have = append(have, fmt.Sprintf("%v %s", arch, offered[arch]))
	}
	if len(have) > 0 {
		say("boot files: %s", strings.Join(have, ", "))
	}
	for _, arch := range []pxe.Arch{pxe.BIOS, pxe.X64} {
		if offered[arch] == "" {
			say("no boot file for %v: install Debian's package ipxe, or put %s into %s", arch, loaderNames[arch][0], c.Dir)
		}
	}
	if c.TFTPPort != 0 && c.TFTPPort != tftpPort {
		say("TFTP is on port %d, and firmware asks port %d: PCs will not boot by TFTP", c.TFTPPort, tftpPort)
	}
}

const tftpPort = 69

// linkNames lists interfaces with their addresses.
func linkNames(links []Interface) string {
	var names []string
	for _, l := range links {
		names = append(names, l.Name+" "+l.Prefixes[0].Addr().String())
	}
	return strings.Join(names, ", ")
}

// FindLoaders looks for boot files that appear or go, until ctx ends.
func (b *Service) FindLoaders(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(findLoadersEvery):
			b.offer(ctx)
		}
	}
}

// offer offers the boot files that are there and those of the settings, and returns them.
func (b *Service) offer(ctx context.Context) map[pxe.Arch]string {
	r := b.settings.rules(findLoaders(ctx, b.clients.Files), b.clients.HTTPPort)
	if err := b.SetRules(r); err != nil {
		b.log.Say(slog.LevelWarn, "boot files stay as they were", slog.String("error", err.Error()))
		return nil
	}
	return r.Files
}
