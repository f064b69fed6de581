//go:build linux

package interop

import (
	"fmt"
	"strconv"
	"testing"
)

// The headers of IP, UDP and TFTP before a block, in bytes.
const (
	before4 = 20 + 8 + 4
	before6 = 40 + 8 + 4
)

// largest has the largest block size that a client may request (RFC 2348).
var largest = options{block: 65464, window: 4}

// Whatever a client requests, packets with blocks need no fragmentation, because boot ROMs cannot
// join fragments. The same holds for uploads.
func TestNetworkMTU(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		link  int // MTU of the cable
		flags []string
		want  int // MTU that the blocks fit into
	}{
		{1500, nil, 1500},
		{1400, nil, 1400},
		{9000, nil, 9000},
		{9000, []string{"--no-offload"}, 9000},
		{1500, []string{"--single-port"}, 1500},
		{1500, []string{"--mtu", "1300"}, 1300},
		{9000, []string{"--mtu", "1500"}, 1500},
		{1500, []string{"--blksize", "1000"}, 0},
	} {
		t.Run(fmt.Sprint(test.link, test.flags), func(t *testing.T) {
			t.Parallel()
			l := newLinkOf(t, test.link)
			l.server.serve(t, l.dir, append(test.flags, "--upload", "create")...)
			for i, server := range []string{host, host6} {
				want := test.want - []int{before4, before6}[i]
				if test.want == 0 {
					want = 1000
				}
				wantBlocks(t, l, server, want)
				l.client.fetches(t, haulClient, largest, port69(server), "f", content(fileSize))
				l.client.fetches(t, curl, options{block: largest.block}, port69(server), "f", content(fileSize))
				l.client.sends(t, haulClient, largest, port69(server), l.dir, fmt.Sprint("u", i), fileSize)
			}
			for name, n := range map[string]*node{"server": l.server, "client": l.client} {
				if f := n.fragments(t); f != 0 {
					t.Errorf("the %s has sent %d fragments", name, f)
				}
			}
		})
	}
}

// newLinkOf sets up a link with an MTU.
func newLinkOf(t *testing.T, mtu int) *link {
	t.Helper()
	l := newBareLink(t, mtu)
	l.server.ip(t, address(eth, host+"/24"), address(eth, host6+"/64"))
	l.client.ip(t, address(eth, guest+"/24"), address(eth, guest6+"/64"))
	return l
}

// wantBlocks requests the largest block size, for a read and a write, and checks the agreed one.
func wantBlocks(t *testing.T, l *link, server string, want int) {
	t.Helper()
	from := guest
	if server == host6 {
		from = guest6
	}
	for _, op := range []byte{readOp, writeOp} {
		name := map[byte]string{readOp: "f", writeOp: "new"}[op]
		a := l.client.ask(t, from, port69(server))
		r, err := a.begin(op, name, "blksize", strconv.Itoa(largest.block))
		if err != nil || r.op != optionsOp || r.option("blksize") != strconv.Itoa(want) {
			t.Errorf("request %d to %s: %v, opcode %d %q, want blksize %d", op, server, err, r.op, r.data, want)
		}
		// This ends the transfer, so that the server does not wait for an answer.
		if err := a.send(numbered(errorOp, 0, []byte("enough\x00"))); err != nil {
			t.Error(err)
		}
	}
}

// With "none" clients get the requested size, and the kernel fragments the packets.
func TestNetworkMTUNone(t *testing.T) {
	t.Parallel()
	l := newLinkOf(t, 1500)
	l.server.serve(t, l.dir, "--mtu", "none", "--upload", "create")
	for i, server := range []string{host, host6} {
		wantBlocks(t, l, server, largest.block)
		before := l.server.fragments(t)
		l.client.fetches(t, haulClient, largest, port69(server), "f", content(fileSize))
		l.client.fetches(t, curl, options{block: largest.block}, port69(server), "f", content(fileSize))
		if l.server.fragments(t) == before {
			t.Errorf("%s has sent no fragment, so this proves nothing", server)
		}
		before = l.client.fragments(t)
		l.client.sends(t, haulClient, largest, port69(server), l.dir, fmt.Sprint("u", i), fileSize)
		if l.client.fragments(t) == before {
			t.Errorf("the client has sent no fragment to %s, so this proves nothing", server)
		}
	}
}

// By default our client requests a size that its own end carries.
func TestNetworkMTUClient(t *testing.T) {
	t.Parallel()
	l := newLinkOf(t, 1400)
	l.server.serve(t, l.dir, "--mtu", "none", "--upload", "create", "--log-format", "json")
	for i, server := range []string{host, host6} {
		l.client.fetches(t, haulClient, options{}, port69(server), "f", content(fileSize))
		l.client.sends(t, haulClient, options{}, port69(server), l.dir, fmt.Sprint("u", i), fileSize)
	}
	if s, c := l.server.fragments(t), l.client.fragments(t); s != 0 || c != 0 {
		t.Errorf("%d fragments from the server, %d from the client", s, c)
	}
}
