//go:build linux && !haul_portable

package interop

import (
	"strconv"
	"testing"
)

// The portable path knows interfaces but not routes, so it has no such tests.

// A path may be narrower in the middle than at either end. Running transfers continue as they
// can; later ones use blocks that fit.
func TestNetworkMTUNarrowPath(t *testing.T) {
	t.Parallel()
	const narrow, behind, behind6 = 1300, "10.72.0.2", "fd72::2"
	l := &link{newNode(t), newNode(t), t.TempDir()}
	router := newNode(t)
	join(t, l.server, eth, router, eth, 1500)
	join(t, router, "eth1", l.client, eth, narrow)
	router.sysctl(t, "ipv4/ip_forward", "1")
	router.sysctl(t, "ipv6/conf/all/forwarding", "1")
	router.ip(t, address(eth, guest+"/24"), address("eth1", "10.72.0.1/24"),
		address(eth, guest6+"/64"), address("eth1", "fd72::1/64"),
		address(eth, "fe80::3/64"), address("eth1", "fe80::3/64")) // without these, IPv6 forwards nothing
	l.server.ip(t, address(eth, host+"/24"), address(eth, host6+"/64"),
		"route add default via "+guest, "route add default via "+guest6)
	l.client.ip(t, address(eth, behind+"/24"), address(eth, behind6+"/64"),
		"route add default via 10.72.0.1", "route add default via fd72::1")
	fill(t, l.dir, map[string][]byte{"f": content(fileSize)})
	l.server.serve(t, l.dir)
	for i, server := range []string{host, host6} {
		want := strconv.Itoa(narrow - []int{before4, before6}[i])
		read := func() reply {
			t.Helper()
			return l.client.ask(t, []string{behind, behind6}[i], port69(server)).wantFile(t, "f", content(fileSize), "blksize", "1468")
		}
		l.client.fetches(t, haulClient, largest, port69(server), "f", content(fileSize))
		// Over IPv4, only packets sent one by one forbid routers to fragment them, so only those
		// detect the limit: the kernel permits fragmenting the segments that it makes.
		read()
		fragments := l.server.fragments(t) + router.fragments(t)
		if got := read().option("blksize"); got != want {
			t.Errorf("%s, when it knows: blksize %s, want %s", server, got, want)
		}
		l.client.fetches(t, haulClient, largest, port69(server), "f", content(fileSize))
		if n := l.server.fragments(t) + router.fragments(t) - fragments; n != 0 {
			t.Errorf("%s, when it knows: %d fragments", server, n)
		}
	}
}

// The administrator may know that a path is narrow, and configure that in a route.
func TestNetworkMTURoute(t *testing.T) {
	t.Parallel()
	l := newLinkOf(t, 1500)
	l.server.ip(t, "route add "+guest+"/32 dev "+eth+" mtu 1200", "route add "+guest6+"/128 dev "+eth+" mtu 1290")
	l.server.serve(t, l.dir, "--upload", "create")
	wantBlocks(t, l, host, 1200-before4)
	wantBlocks(t, l, host6, 1290-before6)
	for _, server := range []string{host, host6} {
		l.client.fetches(t, haulClient, largest, port69(server), "f", content(fileSize))
		l.client.fetches(t, curl, options{block: largest.block}, port69(server), "f", content(fileSize))
	}
	if n := l.server.fragments(t); n != 0 {
		t.Errorf("%d fragments", n)
	}
}
