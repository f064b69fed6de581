//go:build linux

package interop

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// With a single port, all packets come from the port that was asked, for many clients at the same
// time: the kernel drops any others for these clients.
func TestNetworkSinglePort(t *testing.T) {
	t.Parallel()
	const clients, size = 50, 50_000
	for _, flags := range [][]string{{":69"}, {":69", "--no-offload"}, {port69(host) + "," + port69(host6)}} {
		t.Run(strings.Join(flags, " "), func(t *testing.T) {
			t.Parallel()
			l := newLink(t)
			fill(t, l.dir, map[string][]byte{"small": content(size)})
			l.server.serve(t, l.dir, append([]string{"--single-port", "--upload", "create", "--tftp"}, flags...)...)
			var wg sync.WaitGroup
			for i := range clients {
				a := l.client.askOnly(t, port69([]string{host, host6}[i%2]))
				wg.Go(func() {
					if i%5 == 0 {
						if _, err := a.write(fmt.Sprint("u", i), content(size+i)); err != nil {
							t.Errorf("upload %d: %v", i, err)
						}
						return
					}
					a.wantFile(t, "small", content(size), "blksize", "1000", "windowsize", fmt.Sprint(1+i%4*5))
				})
			}
			wg.Wait()
			for i := 0; i < clients; i += 5 {
				wantFile(t, filepath.Join(l.dir, fmt.Sprint("u", i)), content(size+i))
			}
		})
	}
}

// Our own client runs many times at once, with its default options.
func TestNetworkSinglePortTogether(t *testing.T) {
	t.Parallel()
	const files = 50
	l := newLink(t)
	args := []string{"get", "-q", "--parallel", fmt.Sprint(files)}
	for i := range files {
		name := fmt.Sprint("n", i)
		fill(t, l.dir, map[string][]byte{name: content(fileSize + i)})
		args = append(args, "tftp://"+port69(host)+"/"+name)
	}
	l.server.serve(t, l.dir, "--single-port")
	into := t.TempDir()
	l.client.moves(t, haulClient, append(args, into))
	for i := range files {
		wantFile(t, filepath.Join(into, fmt.Sprint("n", i)), content(fileSize+i))
	}
}

// A router that translates addresses drops the answers of a server that uses a port for each
// transfer. A single port solves this.
func TestNetworkNAT(t *testing.T) {
	t.Parallel()
	clients := []struct {
		c client
		o options
	}{
		{haulClient, options{}}, {haulClient, options{window: 1}}, {haulClient, options{block: 1000, window: 16}},
		{curl, options{block: 1428}}, {curlPlain, options{}}, {tftpHPA, options{}}, {atftp, options{block: 1428, window: 8}},
	}
	t.Run("single port", func(t *testing.T) {
		t.Parallel()
		l := newLink(t)
		r, inside := newRouter(t, l, nil)
		l.server.serve(t, l.dir, "--single-port", "--upload", "create")
		for i, c := range clients {
			inside.fetches(t, c.c, c.o, port69(host), "f", content(fileSize))
			inside.sends(t, c.c, c.o, port69(host), l.dir, fmt.Sprint("u", i), fileSize)
		}
		if r.passed.Load() == 0 || r.blocked.Load() != 0 {
			t.Errorf("the router let %d packets pass, and dropped %d", r.passed.Load(), r.blocked.Load())
		}
	})
	t.Run("a port for each transfer", func(t *testing.T) {
		t.Parallel()
		l := newLink(t)
		r, inside := newRouter(t, l, nil)
		l.server.serve(t, l.dir, "--grace", "1ms") // no client will answer
		local := filepath.Join(t.TempDir(), "local")
		d := inside.start(t, haul(t), "get", "-q", "tftp://"+port69(host)+"/f", local)
		for began := time.Now(); r.blocked.Load() < 2 && time.Since(began) < waitMost; {
			time.Sleep(10 * time.Millisecond)
		}
		if r.passed.Load() != 0 || r.blocked.Load() < 2 {
			t.Errorf("the router let %d packets pass, and dropped %d", r.passed.Load(), r.blocked.Load())
		}
		if err := d.stop(); err == nil {
			t.Errorf("it passed:\n%s", d.said(10))
		}
		if _, err := os.Stat(local); err == nil {
			t.Error("there is a file")
		}
	})
}

// Transfers that use a range of ports pass a firewall that opens this range.
func TestNetworkPortRange(t *testing.T) {
	t.Parallel()
	const first, last = 20000, 20003
	inRange := func(from netip.AddrPort) bool { return first <= from.Port() && from.Port() <= last }
	l := newLink(t)
	r, inside := newRouter(t, l, inRange)
	l.server.serve(t, l.dir, "--ports", fmt.Sprintf("%d-%d", first, last), "--upload", "create", "--tftp", "0.0.0.0:69,[::]:69,:6969")
	for _, server := range []string{port69(host), host + ":6969"} {
		for _, c := range []client{haulClient, curl, tftpHPA} {
			inside.fetches(t, c, options{}, server, "f", content(fileSize))
			inside.sends(t, c, options{}, server, l.dir, c.name+port(endpoint(server)), fileSize)
		}
	}
	if n := r.blocked.Load(); n != 0 {
		t.Errorf("%d packets came from other ports", n)
	}
	var wg sync.WaitGroup
	for i := range 20 {
		a := l.client.ask(t, []string{guest, guest6}[i%2], port69([]string{host, host6}[i%2]))
		wg.Go(func() {
			if first := a.wantFile(t, "f", content(fileSize), "blksize", "1428", "windowsize", "16"); !inRange(first.from) {
				t.Errorf("answered from %v", first.from)
			}
		})
	}
	wg.Wait()
}
