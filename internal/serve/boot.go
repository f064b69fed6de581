package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/haul-project/haul/internal/failure"
	"github.com/haul-project/haul/internal/handover"
	"github.com/haul-project/haul/internal/privilege"
	"github.com/haul-project/haul/internal/proxydhcp"
	"github.com/haul-project/haul/internal/source"
	"github.com/haul-project/haul/meter"
	"github.com/haul-project/haul/pxe"
	"github.com/haul-project/haul/store"
)

// bootAddrs name the sockets of a bootService in a handover.
var bootAddrs = []string{fmt.Sprintf(":%d", pxe.PortDHCP), fmt.Sprintf(":%d", pxe.PortPXE)}

// findLoadersEvery is how soon a boot file that has appeared is offered.
const findLoadersEvery = 5 * time.Second

// A bootService answers machines that boot from the network, beside their DHCP server.
type bootService struct {
	cfg    *Config
	out    io.Writer
	log    *bootLog
	srv    *proxydhcp.Server
	files  *publicFiles
	others []service // for the ports that clients are sent to

	links   []proxydhcp.Interface // at the start
	loaders map[pxe.Arch]string   // of the latest rules
	ended   chan struct{}
	serving atomic.Bool
}

// openBoot opens what answers to boot clients need except the sockets. It comes before the
// services that serve the files, since it follows who fetches them.
func (cfg *Config) openBoot(log *slog.Logger, out io.Writer) (_ *bootService, err error) {
	b := &bootService{cfg: cfg, out: out, log: newBootLog(cfg, log), ended: make(chan struct{})}
	defer func() {
		if err != nil {
			b.close()
		}
	}()
	if b.links, err = proxydhcp.Interfaces(cfg.Boot.Interfaces); err != nil {
		return nil, usagef("interface", "--interface: %w", err)
	}
	if b.files, err = cfg.openPublicFiles(nil); err != nil {
		return nil, err
	}
	b.srv, err = proxydhcp.New(proxydhcp.Config{
		Rules: cfg.bootRules(nil, 0), Interfaces: cfg.Boot.Interfaces, Address: cfg.Boot.Address, DryRun: cfg.Boot.DryRun, Report: b.log.report,
	})
	if err != nil {
		return nil, failure.Usage.Wrap(err)
	}
	cfg.requested = b.srv.Requested
	return b, nil
}

// bootRules returns the rules of the settings. found are the boot files that are there.
func (cfg *Config) bootRules(found map[pxe.Arch]string, httpPort uint16) pxe.Rules {
	r := pxe.Rules{Files: map[pxe.Arch]string{}, HTTPPort: httpPort, Hosts: cfg.Boot.Hosts, KnownOnly: cfg.Boot.KnownOnly}
	for _, files := range []map[pxe.Arch]string{found, cfg.Boot.Files} {
		for arch, name := range files {
			r.Files[arch] = name
		}
	}
	for _, p := range cfg.Boot.Relays {
		r.Relays = append(r.Relays, pxe.Network{Addr: p.Addr().As4(), Bits: p.Bits()})
	}
	return r
}

func (b *bootService) secrets() []secret                 { return nil }
func (b *bootService) keepSecret(all []secret) error     { return b.files.keepSecret(all) }
func (b *bootService) name() string                      { return handover.Boot }
func (b *bootService) alive() bool                       { return b.serving.Load() }
func (b *bootService) String() string                    { return "boot clients on " + linkNames(b.links) }
func (b *bootService) registerMetrics(r *meter.Registry) { b.log.registerMetrics(r, b.srv) }

func (b *bootService) close() {
	if b.srv != nil {
		b.srv.Close()
	}
	if b.files != nil {
		b.files.close()
	}
	b.log.Close()
}

// listen opens the sockets, unless a predecessor has done so.
func (b *bootService) listen(ctx context.Context, passed *handover.Inherited) error {
	files := passed.Boot(bootAddrs)
	defer func() {
		for _, f := range files {
			_ = f.Close()
		}
	}()
	if len(files) > 0 {
		return failure.Listen.Wrap(b.srv.Adopt(files))
	}
	err := b.srv.Open(ctx)
	if errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.EPERM) {
		err = fmt.Errorf("%w: answers to boot clients need root, or CAP_NET_BIND_SERVICE and beside another DHCP server of this machine CAP_NET_RAW", err)
	}
	if err != nil {
		return failure.Listen.Errorf("answer boot clients: %w", err)
	}
	return nil
}

// announce prints who is answered, and with which files.
func (b *bootService) announce() {
	found := proxydhcp.FindLoaders(context.Background(), b.shared())
	b.setLoaders(found)
	how := "answering boot clients on %s (ProxyDHCP on ports %d and %d); your DHCP server gives them addresses"
	if b.cfg.Boot.DryRun {
		how = "deciding about boot clients on %s (ProxyDHCP on ports %d and %d), and sending nothing"
	}
	b.cfg.say(b.out, how, linkNames(b.links), pxe.PortDHCP, pxe.PortPXE)
	if b.srv.Shares() {
		b.cfg.say(b.out, "another DHCP server of this machine has port %d; both get what clients send", pxe.PortDHCP)
	}
	var have []string
	for _, arch := range slices.Sorted(maps.Keys(b.loaders)) {
		have = append(have, fmt.Sprintf("%v %s", arch, b.loaders[arch]))
	}
	if len(have) > 0 {
		b.cfg.say(b.out, "boot files: %s", strings.Join(have, ", "))
	}
	for _, arch := range []pxe.Arch{pxe.BIOS, pxe.X64} {
		if b.loaders[arch] == "" {
			b.cfg.say(b.out, "no boot file for %v: install Debian's package ipxe, or put %s into %s", arch, proxydhcp.LoaderNames[arch][0], b.cfg.Dirs[0])
		}
	}
	if port := b.portOf(handover.TFTP); port != 0 && port != tftpPort {
		b.cfg.say(b.out, "TFTP is on port %d, and firmware asks port %d: PCs will not boot by TFTP", port, tftpPort)
	}
}

const tftpPort = 69

// linkNames lists interfaces with their addresses.
func linkNames(links []proxydhcp.Interface) string {
	var names []string
	for _, l := range links {
		names = append(names, l.Name+" "+l.Prefixes[0].Addr().String())
	}
	return strings.Join(names, ", ")
}

func (b *bootService) sandboxPaths(c *privilege.Confinement) {
	c.Read = append(c.Read, b.files.reads...)
	c.Write = append(c.Write, b.files.writes...)
}

// startBackground looks for boot files that appear or go.
func (b *bootService) startBackground(ctx context.Context) {
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(findLoadersEvery):
				b.setLoaders(proxydhcp.FindLoaders(ctx, b.shared()))
			}
		}
	}()
}

// shared returns the files of clients that no other root is for.
func (b *bootService) shared() store.Store {
	return b.files.site.Roots[len(b.files.site.Roots)-1].Files
}

// setLoaders offers the boot files that were found, and those of the settings.
func (b *bootService) setLoaders(found map[pxe.Arch]string) {
	r := b.cfg.bootRules(found, b.portOf(handover.HTTP))
	if err := b.srv.SetRules(r); err != nil {
		b.log.say(slog.LevelWarn, "boot files stay as they were", slog.String("error", err.Error()))
		return
	}
	b.loaders = r.Files
}

// portOf returns the port of another service, or 0 if that is not served. In a dry run it is
// the port as configured.
func (b *bootService) portOf(service string) uint16 {
	if b.cfg.Boot.DryRun && service == handover.HTTP && anyAddr(b.cfg.HTTP.Listen) {
		_, text, _ := net.SplitHostPort(b.cfg.HTTP.Listen[0])
		port, _ := net.LookupPort("tcp", text)
		return uint16(port)
	}
	for _, s := range b.others {
		switch s := s.(type) {
		case *tftpService:
			if service == handover.TFTP && s.listener != nil {
				return s.listener.Addrs()[0].Port()
			}
		case *httpService:
			if service == handover.HTTP && len(s.plain.sockets) > 0 {
				at, _ := netip.ParseAddrPort(s.plain.sockets[0].Addr().String())
				return at.Port()
			}
		}
	}
	return 0
}

func (b *bootService) serve(ctx context.Context) error {
	b.serving.Store(true)
	defer b.serving.Store(false)
	b.srv.Serve(ctx)
	return nil
}

func (b *bootService) sockets() (all []handover.Socket, err error) {
	files, err := b.srv.Files()
	for i, f := range files {
		all = append(all, handover.Socket{Service: handover.Boot, Addr: bootAddrs[i], File: f})
	}
	return all, err
}

// retire ends at once: an answer takes no time, and the successor gives the next one.
func (b *bootService) retire(time.Duration) { b.srv.Close() }

// checkBoot checks what can be checked without opening anything.
func (cfg *Config) checkBoot(m *mistakes) {
	b := &cfg.Boot
	if !b.Answer {
		m.when(len(b.Interfaces) > 0, "interface", "--interface is for boot clients; add --boot")
		m.when(len(b.Files) > 0, "boot-file", "--boot-file goes with --boot")
		m.when(len(b.Hosts) > 0, "boot-host", "--boot-host goes with --boot")
		m.when(b.KnownOnly, "boot-known", "--boot-known goes with --boot")
		m.when(b.Address.IsValid(), "boot-address", "--boot-address goes with --boot")
		m.when(len(b.Relays) > 0, "boot-relay", "--boot-relay goes with --boot")
		return
	}
	m.when(!cfg.ServesTFTP() && !anyAddr(cfg.HTTP.Listen) && !b.DryRun, "boot", "--boot: boot clients fetch files by TFTP and HTTP, and neither is served; add --tftp :69")
	m.when(b.Timeout < 0, "boot-timeout", "--boot-timeout %v: must not be below 0", b.Timeout)
	m.when(b.KnownOnly && len(b.Hosts) == 0, "boot-known", "--boot-known answers only the machines of --boot-host, and none is named")
	m.when(b.Address.IsValid() && !b.Address.Is4(), "boot-address", "--boot-address %v: it is an address of IPv4", b.Address)
	only4 := true
	for _, p := range b.Relays {
		only4 = only4 && p.Addr().Is4()
		m.when(!p.Addr().Is4(), "boot-relay", "--boot-relay %v: it is a network of IPv4", p)
	}
	if !only4 {
		return
	}
	if _, err := pxe.NewServer(cfg.bootRules(nil, 0)); err != nil {
		m.add("boot-file", "%w", err)
	}
}

// withBootFiles adds to the files of all clients what boot clients need besides: boot files
// of DIR/ipxe and of the directory for them, and the scripts that haul makes.
func (cfg *Config) withBootFiles(s *publicFiles, files store.Store) (store.Store, error) {
	layers := []store.Store{files}
	for _, dir := range []string{filepath.Join(cfg.Dirs[0], "ipxe"), cfg.Boot.LoaderDir} {
		optional := dir != cfg.Boot.LoaderDir || dir == DefaultLoaderDir
		if dir == "" || optional && !isDir(dir) {
			continue
		}
		layer, err := s.openTree(cfg, dir, false)
		if err != nil {
			return nil, err
		}
		layers = append(layers, layer)
	}
	return store.Layers(append(layers, proxydhcp.Scripts(files, cfg.Boot.Default, cfg.Boot.Timeout))...), nil
}

func isDir(dir string) bool {
	info, err := os.Stat(dir)
	return !source.IsRemote(dir) && err == nil && info.IsDir()
}
