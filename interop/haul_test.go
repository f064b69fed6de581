//go:build unix

package interop

import (
	"bytes"
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// Every client must see a refusal as one, and nothing may change on disk.
func TestRefusals(t *testing.T) {
	for _, c := range append(peerClients, haulClient) {
		t.Run(c.name, func(t *testing.T) {
			x := begin(t, c, server{name: "haul", start: func(t *testing.T, dir string) netip.AddrPort {
				a, _ := serve(t, dir) // no --upload: read only
				return a
			}})
			name := x.file(t, 1000)
			local := filepath.Join(t.TempDir(), "local")
			refused := func(what string, args []string) {
				t.Helper()
				if out, err := x.try(args); err == nil {
					t.Errorf("%s was not refused:\n%s", what, out)
				}
			}
			refused("a file that is not there", c.get(options{}, x.addr, "nowhere", local))
			refused("an upload", c.put(options{}, x.addr, "new", filepath.Join(x.dir, name)))
			if _, err := os.Stat(filepath.Join(x.dir, "new")); err == nil {
				t.Error("the refused upload is there")
			}
		})
	}
}

// With --upload create, what is there already stays as it is.
func TestCreateDoesNotOverwrite(t *testing.T) {
	for _, c := range append(peerClients, haulClient) {
		t.Run(c.name, func(t *testing.T) {
			x := begin(t, c, haulServer)
			name, other := x.file(t, 1000), x.file(t, 2000)
			if out, err := x.try(c.put(options{}, x.addr, name, filepath.Join(x.dir, other))); err == nil {
				t.Errorf("overwriting was not refused:\n%s", out)
			}
			wantFile(t, filepath.Join(x.dir, name), content(1000))
		})
	}
}

func TestOverwrite(t *testing.T) {
	for _, c := range append(peerClients, haulClient) {
		t.Run(c.name, func(t *testing.T) {
			x := begin(t, c, server{name: "haul", start: func(t *testing.T, dir string) netip.AddrPort {
				a, _ := serve(t, dir, "--upload", "overwrite")
				return a
			}})
			name, other := x.file(t, 2000), x.file(t, 1000)
			x.do(t, c.put(options{}, x.addr, name, filepath.Join(x.dir, other)))
			wantFile(t, filepath.Join(x.dir, name), content(1000))
		})
	}
}

// Atftp sends the value "enable" for tsize and an empty one for multicast. An
// option we do not understand is one we do not confirm, and no more.
func TestOddOptions(t *testing.T) {
	x := begin(t, atftp, haulServer)
	name := x.file(t, 5000)
	for _, odd := range [][]string{
		{"tsize enable"}, {"timeout 3"}, {"multicast"}, {"unheard-of 1"}, {"blksize 7"}, {"blksize 70000"}, {"windowsize 0"},
		{"tsize enable", "multicast", "timeout 1", "blksize 1000", "windowsize 4"},
	} {
		t.Run(strings.Join(odd, ", "), func(t *testing.T) {
			var args []string
			for _, o := range odd {
				args = append(args, "--option", o)
			}
			local := filepath.Join(t.TempDir(), "local")
			x.do(t, append(args, atftp.get(options{}, x.addr, name, local)...))
			wantFile(t, local, content(5000))
		})
	}
}

// All clients at once, each for its own file and back: transfers share sockets
// in our server, and must not share anything else.
func TestTogether(t *testing.T) {
	all := append(peerClients, haulClient, haulPlain)
	dir := t.TempDir()
	addr := haulServer.start(t, dir)
	var wg sync.WaitGroup
	for i, c := range all {
		x := &exchange{c: c, run: c.find(t), s: haulServer, addr: addr, dir: dir, sizes: map[int]bool{}, puts: 100 * i}
		wg.Go(func() {
			for n := range 5 {
				x.both(t, options{}, 300_000+10*n+i)
			}
		})
	}
	wg.Wait()
}

// A server told to end lets running transfers finish, and takes no new ones.
func TestEndWaitsForTransfers(t *testing.T) {
	dir := t.TempDir()
	addr, d := serve(t, dir, "--grace", "5m")
	x := &exchange{c: atftp, run: atftp.find(t), s: haulServer, addr: addr, dir: dir, sizes: map[int]bool{}}
	size := 65535*8 - 1
	name := x.file(t, size)
	local := filepath.Join(t.TempDir(), "local")
	result := make(chan error, 1)
	go func() {
		_, err := x.try(atftp.get(options{block: 8}, addr, name, local))
		result <- err
	}()
	for running := false; !running; { // it takes a second or more in all
		select {
		case err := <-result:
			t.Fatalf("ended before the server was stopped: %v", err)
		case <-time.After(5 * time.Millisecond):
			i, err := os.Stat(local)
			running = err == nil && i.Size() > 0
		}
	}
	d.end()
	if err := <-result; err != nil {
		t.Fatal(err)
	}
	wantFile(t, local, content(size))
	if err := d.stop(); err != nil {
		t.Errorf("haul serve, told to end: %v", err)
	}
}

// The rest of the command line: several files, standard output, and probe.
func TestCommands(t *testing.T) {
	x := begin(t, haulClient, haulServer)
	for _, size := range []int{0, 1000, 100_000} {
		x.file(t, size)
	}
	into := t.TempDir()
	x.do(t, []string{"get", "-q", url(x.addr, "f0"), url(x.addr, "f1000"), url(x.addr, "f100000"), into})
	for name, size := range map[string]int{"f0": 0, "f1000": 1000, "f100000": 100_000} {
		wantFile(t, filepath.Join(into, name), content(size))
	}

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, err := x.run.command(ctx, "get", "-q", url(x.addr, "f1000"), "-").Output()
	if err != nil || !bytes.Equal(out, content(1000)) {
		t.Errorf("get to standard output: %v, %d bytes", err, len(out))
	}
	out, err = x.run.command(ctx, "probe", url(x.addr, "f100000")).Output()
	if err != nil || !bytes.Contains(out, []byte("100000")) {
		t.Errorf("probe: %v, said %q", err, out)
	}

	missing := filepath.Join(t.TempDir(), "missing")
	if out, err := x.try([]string{"get", "-q", url(x.addr, "missing"), missing}); err == nil {
		t.Errorf("getting what is not there succeeded:\n%s", out)
	}
	if _, err := os.Stat(missing); err == nil {
		t.Error("a failed get left a file")
	}
}
