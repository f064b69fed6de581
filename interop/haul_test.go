//go:build unix

package interop

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// Every client must recognize a refusal, and nothing may change on disk.
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

// Atftp sends the value "enable" for tsize and an empty one for multicast. An unknown option is
// not confirmed, but is not an error.
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

// All clients run at once, each with its own file in both directions: transfers share sockets in
// our server, and must not share anything else.
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
