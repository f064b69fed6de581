//go:build linux

package interop

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
)

// A link is a cable between a server's node and a client's. Both have an address of each family
// and a link-local one.
type link struct {
	server, client *node
	dir            string // the directory to serve, with a file "f" of fileSize bytes
}

// fileSize is long enough for several windows of any block size except the largest, and not a
// multiple of any.
const fileSize = 300_001

// newLink sets up a link. It lets other tests run in parallel.
func newLink(t *testing.T) *link {
	t.Helper()
	l := newBareLink(t, 1500)
	l.server.ip(t, address(eth, host+"/24"), address(eth, host6+"/64"), address(eth, linkHost+"/64"))
	l.client.ip(t, address(eth, guest+"/24"), address(eth, guest6+"/64"), address(eth, linkGuest+"/64"))
	return l
}

// newBareLink sets up a link whose ends have no addresses.
func newBareLink(t *testing.T, mtu int) *link {
	t.Helper()
	l := &link{newNode(t), newNode(t), t.TempDir()}
	join(t, l.server, eth, l.client, eth, mtu)
	fill(t, l.dir, map[string][]byte{"f": content(fileSize)})
	return l
}

// join connects two nodes with a cable, which has a different name on each.
func join(t *testing.T, a *node, aName string, b *node, bName string, mtu int) {
	t.Helper()
	a.ip(t, fmt.Sprintf("link add name %s mtu %d type veth peer name %s mtu %d netns /proc/%d/task/%d/ns/net",
		aName, mtu, bName, mtu, os.Getpid(), b.tid), "link set dev "+aName+" up")
	b.ip(t, "link set dev "+bName+" up")
}

// address returns the command that adds an address to an interface.
func address(name, prefix string) string {
	command := fmt.Sprintf("addr add %s dev %s", prefix, name)
	if netip.MustParsePrefix(prefix).Addr().Is6() {
		return command + " nodad" // usable at once, because no other host can have it
	}
	return command + " brd +"
}

// port69 returns host:port for TFTP's own port.
func port69(host string) string { return netip.AddrPortFrom(netip.MustParseAddr(host), 69).String() }

func endpoint(s string) netip.AddrPort { return netip.MustParseAddrPort(s) }

// shelf makes a directory below dir, with a file "f" of size bytes.
func shelf(t *testing.T, dir, name string, size int) string {
	t.Helper()
	dir = filepath.Join(dir, name)
	if err := os.Mkdir(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	return fill(t, dir, map[string][]byte{"f": content(size)})
}
