package proxydhcp

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/boot/dhcp"
	"github.com/haul-project/haul/cmd/haul/internal/boot/dhcpadvice"
	"github.com/haul-project/haul/cmd/haul/internal/boot/pxe"
	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/server/meter"
	"github.com/haul-project/haul/store"
)

const (
	// findLoadersEvery is the interval at which the served files are searched for boot files, so a
	// new boot file is offered after at most that time. If some of the files are on another
	// machine, a search costs some twenty requests, so the interval is findRemoteEvery.
	findLoadersEvery = 5 * time.Second
	findRemoteEvery  = time.Minute

	// announceTime limits the search for files before the server starts.
	announceTime = 5 * time.Second
)

// A Service is a [Server] that follows [Settings]: it offers the boot files that it finds, and
// logs, counts and announces its answers. Call its methods in this order: [Service.Listen],
// [Service.Announce], [Service.FindLoaders], [Server.Serve] and [Service.Close].
type Service struct {
	*Server
	settings Settings
	log      *eventLog
	links    []Interface // interfaces that existed at the start
	clients  Clients
	found    map[pxe.Arch]string // boot files that the latest search found
	failure  string              // text of the latest search's error; "" if the search succeeded

	// Staged is called when a machine has reached another stage; file is the name of the requested
	// file that caused this, or "" if no request did. It must not block. Set it before Serve.
	Staged func(m pxe.Machine, file string)
}

// Clients says which files boot clients get, and at which addresses.
type Clients struct {
	Files  store.Store // files that boot clients get
	Dir    string      // the first directory with these files, for messages
	Remote bool        // some of the files are on another machine

	// TFTP and HTTP are the addresses at which the files are served. An address that is not valid
	// means all addresses of this machine. A URL for a client contains an HTTP address that the
	// client can reach: not a loopback address, and not one in another network. For TFTP, clients
	// use the address in the DHCP answer, so TFTP must be served there.
	TFTP, HTTP []netip.AddrPort
}

// Planned resolves the addresses to listen at. It leaves out addresses that cannot be resolved.
func Planned(listen []string) (all []netip.AddrPort) {
	for _, addr := range listen {
		if at, err := net.ResolveTCPAddr("tcp", addr); err == nil {
			all = append(all, at.AddrPort())
		}
	}
	return all
}

// NewService returns a service for settings that have passed Check. With trace, the service logs
// every packet. If no interface is ready at the moment, NewService returns an error.
func NewService(s Settings, trace bool, log *slog.Logger) (*Service, error) {
	links, err := Interfaces(s.Interfaces)
	if err != nil {
		return nil, &failure.Error{Kind: failure.Listen, Setting: "interface", Err: fmt.Errorf("answer boot clients: %w", err)}
	}
	b := &Service{settings: s, links: links}
	b.Server, err = New(Config{
		Rules: s.rules(nil, nil), Interfaces: s.Interfaces, Address: s.Address, DryRun: s.DryRun,
		Report: func(e Event) { b.log.report(e) },
		Staged: func(m pxe.Machine, file string) {
			if b.log.staged(m, file); b.Staged != nil {
				b.Staged(m, file)
			}
		},
	})
	if err != nil {
		return nil, failure.Usage.Wrap(err)
	}
	b.log = newEventLog(log, trace, s.DryRun)
	return b, nil
}

// String returns the names of the interfaces, for messages.
func (b *Service) String() string { return "boot clients on " + linkNames(b.links) }

// RegisterMetrics registers the service's counters.
func (b *Service) RegisterMetrics(r *meter.Registry) { b.log.registerMetrics(r, b.Server) }

// Listen opens the sockets. If passed holds files that a predecessor's [Server.Files] returned,
// Listen takes over their sockets instead, and closes the files.
func (b *Service) Listen(ctx context.Context, passed []*os.File) error {
	if len(passed) > 0 {
		defer closeFiles(passed)
		if len(passed) > len(ports) {
			b.takeMemory(passed[len(ports)])
		}
		if err := b.Adopt(passed); err != nil {
			return failure.Listen.Errorf("answer boot clients: %w", err)
		}
		return nil
	}
	if err := b.Open(ctx); err != nil {
		return failure.Listen.Errorf("answer boot clients: %w", err)
	}
	return nil
}

// Close closes the sockets, and flushes the log.
func (b *Service) Close() {
	b.Server.Close()
	b.log.Close()
}

// Announce searches for boot files, and calls say to print which clients get which boot file.
func (b *Service) Announce(c Clients, say func(format string, args ...any)) {
	b.clients = c
	ctx, cancel := context.WithTimeout(context.Background(), announceTime)
	defer cancel()
	offered := b.offer(ctx)
	how := "answering boot clients on %s (ProxyDHCP on ports %d and %d); your DHCP server gives them addresses"
	switch {
	case !b.Opened():
		how = "would answer boot clients on %s (ProxyDHCP on ports %d and %d); your DHCP server gives them addresses"
	case b.settings.DryRun:
		how = "deciding about boot clients on %s (ProxyDHCP on ports %d and %d), and sending nothing"
	}
	say(how, linkNames(b.links), dhcp.PortServer, dhcp.PortPXE)
	if b.Shares() {
		say("another DHCP server of this machine has port %d; both get what clients send", dhcp.PortServer)
	}
	var have []string
	for _, arch := range slices.Sorted(maps.Keys(offered)) {
		have = append(have, fmt.Sprintf("%v %s", arch, offered[arch]))
	}
	if len(have) > 0 {
		say("boot files: %s", strings.Join(have, ", "))
	}
	for _, arch := range []pxe.Arch{pxe.BIOS, pxe.X64} {
		if offered[arch] == "" && b.failure == "" {
			say("no boot file for %v: install Debian's package ipxe and restart haul, or put %s into %s", arch, loaderNames[arch][0], c.Dir)
		}
	}
	atFirmwares := func(at netip.AddrPort) bool { return at.Port() == tftpPort }
	if len(c.TFTP) > 0 && !slices.ContainsFunc(c.TFTP, atFirmwares) {
		say("TFTP is on port %d, and firmware asks port %d: PCs will not boot by TFTP", c.TFTP[0].Port(), tftpPort)
	}
	if len(c.HTTP) > 0 && !b.reachHTTP() {
		say("HTTP is at no address that boot clients reach: they get no URLs; serve it at an address of theirs, or at all: --http :80")
	}
	b.announceMenu(ctx, say)
}

// reachHTTP reports whether clients can reach the HTTP server at one of the addresses that answers
// contain.
func (b *Service) reachHTTP() bool {
	r := b.settings.rules(nil, b.clients.HTTP)
	reached := func(p netip.Prefix) bool { return r.HTTPPorts[p.Addr().As4()] != 0 }
	return r.HTTPPort != 0 || b.settings.Address.IsValid() && len(r.HTTPPorts) > 0 || slices.ContainsFunc(b.links, func(i Interface) bool { return slices.ContainsFunc(i.Prefixes, reached) })
}

// announceMenu calls say to print the menu that iPXE will show.
func (b *Service) announceMenu(ctx context.Context, say func(format string, args ...any)) {
	m := readMenu(ctx, b.clients.Files)
	m.Default, m.Timeout = b.settings.Default, b.settings.Timeout
	for _, problem := range m.Problems {
		say("left out of the menu: %v", problem)
	}
	for _, problem := range m.GRUBProblems() {
		say("left out of GRUB's menu: %v", problem)
	}
	for _, problem := range m.IPXEProblems() {
		say("iPXE of Debian 12 cannot load %v; rename it, or use a later iPXE", problem)
	}
	first := m.Default
	if err := m.Check(); err != nil {
		say("--boot-default: %v; that is the disk now", err)
		first = ""
	}
	then := "waits for a choice"
	if m.Timeout > 0 {
		then = fmt.Sprintf("boots %s after %v", cmp.Or(first, "the disk"), m.Timeout)
	}
	entries := fmt.Sprint(len(m.Entries), " entries")
	if len(m.Entries) == 1 {
		entries = "1 entry"
	}
	say("iPXE gets a menu of %s, which %s; a %s in %s replaces it", entries, then, pxe.ScriptName, b.clients.Dir)
}

const tftpPort = 69

// Advise writes configuration lines for the DHCP server that the settings name. With these lines,
// that server itself sends boot clients to this machine. Advise does not open sockets or send
// anything.
func (b *Service) Advise(c Clients, out io.Writer) error {
	addr := b.settings.Address
	switch {
	case addr.IsValid():
	case len(b.links) == 1:
		addr = b.links[0].Prefixes[0].Addr()
	default:
		return failure.Usage.Errorf("%s: clients may reach this machine at several addresses (%s); choose one by %s or %s", failure.Flag("advise"), linkNames(b.links), failure.Flag("interface"), failure.Flag("boot-address"))
	}
	ctx, cancel := context.WithTimeout(context.Background(), announceTime)
	defer cancel()
	found, err := findLoaders(ctx, c.Files, nil)
	if err != nil {
		return failure.Local.Errorf("look for boot files: %w", err)
	}
	r := b.settings.rules(found, c.HTTP)
	offerings, err := dhcpadvice.Offerings(r, addr.As4())
	if err != nil {
		return failure.Usage.Wrap(err)
	}
	lines, err := dhcpadvice.Write(b.settings.Advise, addr.As4(), offerings)
	if err != nil {
		return failure.Usage.Errorf("%s: %w", failure.Flag("advise"), err)
	}
	_, err = io.WriteString(out, lines)
	return failure.Local.Wrap(err)
}

// FindLoaders repeats the search for boot files, and reports machines that have stopped sending
// requests, until ctx ends or the server is closed.
func (b *Service) FindLoaders(ctx context.Context) {
	every := findLoadersEvery
	if b.clients.Remote {
		every = findRemoteEvery
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.closed: // the server is closed: a successor handles the machines now
			return
		case <-time.After(every):
			b.offer(ctx)
			b.reportChanges()
		}
	}
}

// offer searches for boot files and offers them, together with those in the settings. It returns
// all of them, or nil if they cannot be offered. If searches fail repeatedly for the same reason, it logs the error only once.
func (b *Service) offer(ctx context.Context) map[pxe.Arch]string {
	var err error
	b.found, err = findLoaders(ctx, b.clients.Files, b.found)
	before := b.failure
	if b.failure = ""; err != nil {
		b.failure = err.Error()
	}
	if b.failure != before && err != nil {
		b.log.Say(slog.LevelWarn, "boot files are looked for again later", slog.String("error", b.failure))
	}
	r := b.settings.rules(b.found, b.clients.HTTP)
	if err := b.SetRules(r); err != nil {
		b.log.Say(slog.LevelWarn, "boot files stay as they were", slog.String("error", err.Error()))
		return nil
	}
	return r.Files
}

// takeMemory takes over a predecessor's memory of machines. If that fails, it logs a warning:
// machines can boot nevertheless.
func (b *Service) takeMemory(f *os.File) {
	memory, err := readMemory(f)
	if err == nil {
		err = b.restore(memory)
	}
	if err != nil {
		b.log.Say(slog.LevelWarn, "boot clients of the predecessor", slog.String("error", err.Error()))
	}
}
