package proxydhcp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/boot/dhcp"
	"github.com/haul-project/haul/cmd/haul/internal/boot/pxe"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/storetest"
)

// newTestService returns a service without sockets or interfaces, and its log.
func newTestService(t *testing.T, s Settings) (*Service, *bytes.Buffer) {
	t.Helper()
	srv, err := New(Config{Rules: s.rules(nil, nil)})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	link := Interface{Name: "eth0", Index: 2, Prefixes: []netip.Prefix{netip.MustParsePrefix("192.0.2.9/24")}}
	return &Service{Server: srv, settings: s, links: []Interface{link}, log: newEventLog(slog.New(slog.NewTextHandler(&out, nil)), false, s.DryRun)}, &out
}

// answers returns the reason with which a machine of a kind is answered or not.
func answers(t *testing.T, b *Service, kind string) pxe.Reason {
	t.Helper()
	k, err := ParseKind(kind)
	if err != nil {
		t.Fatal(err)
	}
	packet := k.appendRequest(nil, dhcp.Discover, RandomMAC(), 7, dhcp.Addr{})
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.decide.Handle(time.Now(), packet, pxe.Arrival{Port: dhcp.PortServer, FromPort: clientPort, Server: dhcp.Addr{192, 0, 2, 9}}, nil).Reason
}

// A service announces the boot files, and the machines that have none. A file that appears is
// offered soon, and one of the settings takes precedence.
func TestServiceFindsLoaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		files := store.Mem(0)
		storetest.Put(t, files, "undionly.kpxe", "")
		b, _ := newTestService(t, Settings{Answer: true, Files: map[pxe.Arch]string{pxe.ARM64: "own.efi"}})
		defer b.Close()
		var said []string
		b.Announce(Clients{Files: files, Dir: "/srv", TFTP: []netip.AddrPort{netip.MustParseAddrPort("0.0.0.0:6969")}}, func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) })
		want := []string{
			"would answer boot clients on eth0 192.0.2.9 (ProxyDHCP on ports 67 and 4011); your DHCP server gives them addresses",
			"boot files: BIOS undionly.kpxe, UEFI arm64 own.efi",
			"no boot file for UEFI x64: install Debian's package ipxe and restart haul, or put ipxe-shimx64.efi into /srv",
			"TFTP is on port 6969, and firmware asks port 69: PCs will not boot by TFTP",
			"iPXE gets a menu of 0 entries, which waits for a choice; a boot.ipxe in /srv replaces it",
		}
		if !slices.Equal(said, want) {
			t.Errorf("it says\n%s\nwant\n%s", strings.Join(said, "\n"), strings.Join(want, "\n"))
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go b.FindLoaders(ctx)
		if why := answers(t, b, "x64"); why == pxe.Answered {
			t.Error("a machine without a boot file is answered")
		}
		storetest.Put(t, files, "ipxe.efi", "")
		time.Sleep(findLoadersEvery)
		synctest.Wait()
		if why := answers(t, b, "x64"); why != pxe.Answered {
			t.Errorf("a boot file has appeared, and is not offered: %v", why)
		}
	})
}

// A service warns if firmware or boot clients cannot reach the served files, and only then.
func TestServiceAnnouncesAddresses(t *testing.T) {
	at := netip.MustParseAddrPort
	for _, test := range []struct {
		address    netip.Addr
		tftp, http []netip.AddrPort
		want       []string
	}{
		{tftp: []netip.AddrPort{at("127.0.0.1:6969"), at("0.0.0.0:69")}, http: []netip.AddrPort{at("127.0.0.1:80"), at("192.0.2.9:80")}},
		{http: []netip.AddrPort{at("[::]:80")}},
		{http: []netip.AddrPort{at("203.0.113.1:80")}, address: netip.MustParseAddr("203.0.113.1")},
		{tftp: []netip.AddrPort{at("0.0.0.0:6969")}, want: []string{"TFTP is on port 6969,"}},
		{http: []netip.AddrPort{at("127.0.0.1:80"), at("198.51.100.9:80")}, want: []string{"HTTP is at no address that boot clients reach"}},
	} {
		b, _ := newTestService(t, Settings{Answer: true, Address: test.address})
		var said []string
		b.Announce(Clients{Files: store.Mem(0), TFTP: test.tftp, HTTP: test.http}, func(format string, args ...any) {
			if strings.HasPrefix(format, "TFTP") || strings.HasPrefix(format, "HTTP") {
				said = append(said, fmt.Sprintf(format, args...))
			}
		})
		b.Close()
		if !slices.EqualFunc(said, test.want, strings.HasPrefix) {
			t.Errorf("TFTP at %v and HTTP at %v: it says %q, want %q", test.tftp, test.http, said, test.want)
		}
	}
}

// A service announces the menu, its problems, and the default entry.
func TestServiceAnnouncesMenu(t *testing.T) {
	files := store.Mem(0)
	storetest.Put(t, files, "loader/entries/own.conf", "title Own\nlinux /linux\n")
	storetest.Put(t, files, "loader/entries/quote.conf", "linux /linux\noptions a=don't\n")
	storetest.Put(t, files, "loader/entries/umlaut.conf", "linux /linux\ninitrd /für\n")
	storetest.Put(t, files, "loader/entries/windows.conf", "title Windows\nefi /w.efi\n")
	for standard, want := range map[string][]string{
		"":    {"left out of the menu: loader/entries/windows.conf: it has no line linux", "left out of GRUB's menu: quote: its options have a single quote or a backslash\n", "iPXE of Debian 12 cannot load umlaut: the name of a file has letters that are not ASCII;", "a menu of 3 entries, which boots the disk after 10s;"},
		"own": {"which boots own after 10s;"},
		"owm": {`--boot-default: no entry has the name "owm", which is to be booted by default; that is the disk now`, "which boots the disk after 10s;"},
	} {
		b, _ := newTestService(t, Settings{Answer: true, Default: standard, Timeout: 10 * time.Second})
		var said strings.Builder
		b.Announce(Clients{Files: files, Dir: "/srv"}, func(format string, args ...any) { fmt.Fprintf(&said, format+"\n", args...) })
		b.Close()
		for _, w := range want {
			if !strings.Contains(said.String(), w) {
				t.Errorf("with the default %q it lacks %s:\n%s", standard, w, said.String())
			}
		}
	}
}

// away is a store that cannot be reached for a while.
type away struct {
	store.Store
	gone atomic.Bool
}

func (a *away) Stat(ctx context.Context, name string) (fs.FileInfo, error) {
	if a.gone.Load() {
		return nil, store.ErrUnavailable
	}
	return a.Store.Stat(ctx, name)
}

// While the files cannot be reached, the boot files from before are offered, and the log says so
// once. Another machine is asked for them only once a minute, less often than a disk.
func TestServiceKeepsLoaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		files := &away{Store: store.Mem(0)}
		storetest.Put(t, files.Store, "undionly.kpxe", "")
		b, out := newTestService(t, Settings{Answer: true})
		b.Announce(Clients{Files: files, Dir: "https://192.0.2.7/", Remote: true}, func(string, ...any) {})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go b.FindLoaders(ctx)
		want := func(when string, bios, x64 bool) {
			t.Helper()
			synctest.Wait()
			for name, want := range map[string]bool{"bios": bios, "x64": x64} {
				if got := answers(t, b, name) == pxe.Answered; got != want {
					t.Errorf("%s: %s is answered: %v", when, name, got)
				}
			}
		}
		files.gone.Store(true)
		storetest.Put(t, files.Store, "ipxe.efi", "")
		time.Sleep(3 * findRemoteEvery)
		want("while the files are away", true, false)
		files.gone.Store(false)
		time.Sleep(findRemoteEvery / 2)
		want("when the files are back", true, false)
		time.Sleep(findRemoteEvery / 2)
		want("a minute later", true, true)
		b.Close()
		if n := strings.Count(out.String(), "boot files are looked for again later"); n != 1 {
			t.Errorf("the log says it %d times:\n%s", n, out)
		}
	})
}

// A service whose sockets a successor has taken over stops searching: the machines are the
// successor's.
func TestServiceEndsAtHandover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		files := store.Mem(0)
		b, _ := newTestService(t, Settings{Answer: true})
		defer b.Close()
		b.Announce(Clients{Files: files, Dir: "/srv"}, func(string, ...any) {})
		ended := make(chan struct{})
		go func() {
			b.FindLoaders(context.Background())
			close(ended)
		}()
		synctest.Wait()
		b.Server.Close()
		synctest.Wait()
		select {
		case <-ended:
		default:
			t.Fatal("it still looks for boot files")
		}
	})
}

// Answers and unanswered boot clients are logged, but not clients that do not boot. Lines about
// unanswered clients are bounded, and the rest is counted in one line.
func TestEventLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, out := newTestService(t, Settings{Answer: true})
		event := func(reason pxe.Reason, class pxe.Class) Event {
			return Event{Interface: "eth0", Answer: pxe.Answer{Reason: reason, MAC: RandomMAC(), Client: pxe.Client{Class: class, Arch: pxe.X64}, Form: pxe.Direct, File: "ipxe.efi"}}
		}
		b.log.report(event(pxe.Answered, pxe.PXEClient))
		b.log.report(event(pxe.NoFile, pxe.NoClass))
		for range maxLines + 1000 {
			b.log.report(event(pxe.NoFile, pxe.PXEClient))
		}
		time.Sleep(time.Second)
		b.log.report(event(pxe.NoFile, pxe.PXEClient))
		time.Sleep(time.Second)
		for range maxLines + 1000 {
			failed := event(pxe.Answered, pxe.PXEClient)
			failed.Err = errors.New("no route")
			b.log.report(failed)
		}
		b.Close()
		for text, want := range map[string]int{
			"result=offered mac=":               1,
			" form=direct file=ipxe.":           1 + maxLines,
			"level=WARN msg=boot result=failed": maxLines,
			`error="no route"`:                  maxLines,
			"result=unanswered":                 maxLines + 1,
			`msg="boot: lines left out"`:        4, // for each cause the first one at once, and the sum
			" packets=999 ":                     2,
		} {
			if n := strings.Count(out.String(), text); n != want {
				t.Errorf("the log has %q %d times, want %d", text, n, want)
			}
		}
		if n := b.log.replies[pxe.X64][pxe.Direct].Load(); n != 1 {
			t.Errorf("%d replies are counted, want 1", n)
		}
		if n := b.log.unanswered[pxe.NoFile].Load(); n != maxLines+1002 {
			t.Errorf("%d packets without an answer are counted, want %d", n, maxLines+1002)
		}
	})
}

// The lines about answers and about requested files are bounded, for a machine and for all, since the
// requests may be forged. Each machine that comes once has its lines.
func TestEventLogFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const flood, machines = 2000, 100
		b, out := newTestService(t, Settings{Answer: true})
		answered := Event{Interface: "eth0", Answer: pxe.Answer{MAC: RandomMAC(), Client: pxe.Client{Class: pxe.PXEClient, Arch: pxe.X64}, Form: pxe.Direct, File: "ipxe.efi"}}
		long := strings.Repeat("n", 2000)
		for range flood {
			b.log.report(answered)
			b.log.staged(pxe.Machine{MAC: answered.Answer.MAC, Stage: pxe.Kernel}, long)
		}
		for range machines {
			answered.Answer.MAC = RandomMAC()
			b.log.report(answered)
			b.log.staged(pxe.Machine{MAC: answered.Answer.MAC, Stage: pxe.Script}, "script")
		}
		for range flood {
			answered.Answer.MAC = RandomMAC()
			b.log.report(answered)
		}
		b.Close()
		offered, kernel, script := strings.Count(out.String(), "result=offered"), strings.Count(out.String(), "result=kernel"), strings.Count(out.String(), "result=script")
		if kernel != 100 || script != machines || offered != 1000 {
			t.Errorf("%d lines about offers, %d about kernels, %d about scripts", offered, kernel, script)
		}
		if strings.Contains(out.String(), long[:257]) || !strings.Contains(out.String(), long[:256]) {
			t.Error("a name has not 256 bytes")
		}
		for _, text := range []string{"cause=answers packets=", `cause="requests for files" packets=`} {
			if !strings.Contains(out.String(), text) {
				t.Errorf("the log has no %q", text)
			}
		}
	})
}
