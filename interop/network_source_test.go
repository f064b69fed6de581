//go:build linux && !haul_portable

package interop

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A server with many addresses answers from the one that the client used, since boot ROMs drop
// packets from another. The portable path leaves the choice to the kernel, which takes the first
// address that fits the route.
func TestNetworkAnswersFromAddressAsked(t *testing.T) {
	t.Parallel()
	const (
		second = "10.69.0.7" // on the same interface
		other  = "10.71.0.1" // on the same interface, in another network
		vip    = "192.0.2.1" // on loopback, as with load balancers and keepalived
		aside  = "10.70.0.1" // on an interface to which the client is not connected

		second6 = "fd69::7"
		vip6    = "fd70::1"
	)
	addrs := []string{host, second, other, vip, aside, host6, second6, vip6}
	var each []string
	for _, a := range addrs {
		each = append(each, port69(a))
	}
	onLink := append(slices.Clone(addrs), linkHost+"%"+eth)
	for _, test := range []struct {
		flags []string
		asked []string
	}{
		{[]string{"--tftp", ":69"}, onLink},
		{[]string{"--tftp", ":69", "--single-port"}, onLink},
		{[]string{"--tftp", ":69", "--no-offload"}, onLink},
		{[]string{"--tftp", "0.0.0.0:69,[::]:69", "--ports", "20000-20009"}, onLink},
		{[]string{"--tftp", strings.Join(each, ",")}, addrs},
		{[]string{"--tftp", strings.Join(each, ","), "--single-port"}, addrs},
	} {
		t.Run(strings.Join(test.flags, " "), func(t *testing.T) {
			t.Parallel()
			l := newLink(t)
			spare := newNode(t)
			join(t, l.server, "eth1", spare, eth, 1500)
			l.server.ip(t, address(eth, second+"/24"), address(eth, other+"/24"), address("lo", vip+"/32"), address("eth1", aside+"/24"),
				address(eth, second6+"/64"), address("lo", vip6+"/128"))
			l.client.ip(t, "route add default via "+host, "route add default via "+host6)
			l.server.serve(t, l.dir, append(test.flags, "--upload", "create")...)
			for _, a := range test.asked {
				wantAnswersFrom(t, l, a, slices.Contains(test.flags, "--single-port"))
				if !strings.Contains(a, "%") { // tested elsewhere
					// Our own client accepts no packets from another address.
					l.client.fetches(t, haulClient, options{}, port69(a), "f", content(fileSize))
				}
			}
		})
	}
}

// wantAnswersFrom reads and writes a file, packet by packet, at an address of the server. With a
// single port the client's kernel drops packets from other sources.
func wantAnswersFrom(t *testing.T, l *link, server string, single bool) {
	t.Helper()
	open := func() *asker {
		if single {
			return l.client.askOnly(t, port69(server))
		}
		if netip.MustParseAddr(server).Is4() {
			return l.client.ask(t, "0.0.0.0", port69(server))
		}
		return l.client.ask(t, "::", port69(server))
	}
	addr := netip.MustParseAddr(server).WithZone("")
	first := open().wantFile(t, "f", content(fileSize), "blksize", "1428", "windowsize", "8")
	if first.from.Addr() != addr {
		t.Errorf("asked %s, answered from %v", server, first.from)
	}
	if single && first.from.Port() != 69 {
		t.Errorf("asked %s on the single port, answered from %v", server, first.from)
	}
	name := fmt.Sprintf("up-%x", netip.MustParseAddr(server).AsSlice())
	first, err := open().write(name, content(5000))
	if err != nil || first.from.Addr() != addr {
		t.Fatalf("write to %s: %v, answered from %v", server, err, first.from)
	}
	wantFile(t, filepath.Join(l.dir, name), content(5000))
	a := open()
	a.wantError(t, readOp, "nowhere", 1, "file not found")
	if a.to.Addr().WithZone("") != addr {
		t.Errorf("asked %s, refused from %v", server, a.to)
	}
}

// wantError sends a request and checks the ERROR in the answer.
func (a *asker) wantError(t *testing.T, op byte, name string, code int, text string) {
	t.Helper()
	r, err := a.begin(op, name)
	if err != nil || r.op != errorOp || r.number != code || r.text() != text {
		t.Errorf("request %d for %s: %v, opcode %d, %d %q, want ERROR %d %q", op, name, err, r.op, r.number, r.data, code, text)
	}
}
