//go:build linux

package interop

import (
	"strings"
	"testing"
)

// clients are two clients of a site, on separate cables and known by name.
type clients struct {
	l      *link
	first  *node // l.client: guest, guest6, firstMAC
	second *node // secondIP
	dir    string
}

const (
	firstMAC = "52:54:00:69:00:02"
	secondIP = "10.70.0.2"
	toSecond = "10.70.0.1" // the server's address on that cable
)

func newClients(t *testing.T) *clients {
	t.Helper()
	l := newLink(t)
	c := &clients{l, l.client, newNode(t), t.TempDir()}
	join(t, l.server, "eth1", c.second, eth, 1500)
	l.client.ip(t, "link set dev "+eth+" address "+firstMAC)
	l.server.ip(t, address("eth1", toSecond+"/24"))
	c.second.ip(t, address(eth, secondIP+"/24"))
	return c
}

// Each size identifies a directory, whose file "f" has that many bytes.
const (
	common = 1000
	own    = 2000
)

// wantFirst and wantSecond check the size of the "f" that the clients get.
func (c *clients) wantFirst(t *testing.T, server string, size int) {
	t.Helper()
	c.first.fetches(t, haulClient, options{}, server, "f", content(size))
}

func (c *clients) wantSecond(t *testing.T, size int) {
	t.Helper()
	c.second.fetches(t, haulClient, options{}, port69(toSecond), "f", content(size))
}

// One client gets another directory, because of its address, its hardware address, or the server
// address that it uses. Others do not.
func TestNetworkRoots(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		who            string
		first4, first6 int // what the first client gets over IPv4 and IPv6
		first6969      int // and on another port
	}{
		{guest, own, common, own},
		{guest6, common, own, common},
		{"fd69::/64," + guest + "/32", own, own, own},
		{firstMAC, own, own, own},
		{strings.ReplaceAll(firstMAC, ":", "-"), own, own, own},
		{"on=" + host, own, common, own},
		{"on=" + host + ":69", own, common, common},
		{"on=[" + host6 + "]:69", common, own, common},
		{"on=:6969", common, common, own},
	} {
		if tags != "" && strings.HasPrefix(test.who, "on=") && !strings.HasPrefix(test.who, "on=:") {
			continue // the portable path does not know which address was used
		}
		t.Run(test.who, func(t *testing.T) {
			t.Parallel()
			c := newClients(t)
			base, other := shelf(t, c.dir, "base", common), shelf(t, c.dir, "other", own)
			c.l.server.serve(t, base, "--root", test.who+"="+other, "--upload", "create", "--tftp", ":69,:6969")
			c.wantFirst(t, port69(host), test.first4)
			c.wantFirst(t, port69(host6), test.first6)
			c.wantFirst(t, host+":6969", test.first6969)
			c.wantSecond(t, common)
			// Their uploads are stored in the same directories.
			c.first.sends(t, haulClient, options{}, port69(host), map[int]string{own: other, common: base}[test.first4], "up", 500)
			c.second.sends(t, haulClient, options{}, port69(toSecond), base, "up2", 500)
		})
	}
}
