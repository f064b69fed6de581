//go:build linux

package interop

import (
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The server answers on all addresses that it listens on, and on no others.
func TestNetworkFamilies(t *testing.T) {
	t.Parallel()
	both := []string{port69(host), port69(host6)}
	for _, test := range []struct {
		listen       string
		serves, mute []string
	}{
		{":69", both, nil},
		{"0.0.0.0:69", both[:1], both[1:]},
		{"[::]:69", both[1:], both[:1]},
		{both[0], both[:1], both[1:]},
		{both[1], both[1:], both[:1]},
		{both[0] + "," + both[1], both, nil},
		{both[0] + ",[" + host6 + "]:6969", []string{both[0], "[" + host6 + "]:6969"}, both[1:]},
	} {
		t.Run(test.listen, func(t *testing.T) {
			t.Parallel()
			l := newLink(t)
			l.server.serve(t, l.dir, "--tftp", test.listen, "--upload", "create")
			for i, server := range test.serves {
				l.client.fetches(t, haulClient, options{}, server, "f", content(fileSize))
				l.client.fetches(t, curl, options{block: 1428}, server, "f", content(fileSize))
				l.client.sends(t, haulClient, options{}, server, l.dir, fmt.Sprint("u", i), fileSize)
				if endpoint(server).Addr().Is4() {
					l.client.fetches(t, tftpHPA, options{}, server, "f", content(fileSize))
				}
			}
			for _, server := range test.mute {
				l.client.awaitNobody(t, server)
			}
		})
	}
}

// A link-local address only has a meaning together with an interface.
func TestNetworkLinkLocal(t *testing.T) {
	t.Parallel()
	for _, listen := range []string{":69", "[" + linkHost + "%" + eth + "]:69"} {
		t.Run(listen, func(t *testing.T) {
			t.Parallel()
			l := newLink(t)
			// The client has a second cable, whose far end has the same address.
			other := newNode(t)
			join(t, l.client, "eth1", other, eth, 1500)
			l.client.ip(t, address("eth1", linkGuest+"/64"))
			other.ip(t, address(eth, linkHost+"/64"))

			l.server.serve(t, l.dir, "--tftp", listen, "--upload", "create")
			other.serve(t, shelf(t, l.dir, "other", 1000))
			get := func(name string, size int) {
				t.Helper()
				url := fmt.Sprintf("tftp://[%s%%25%s]/f", linkHost, name)
				local := filepath.Join(t.TempDir(), "local")
				l.client.moves(t, haulClient, []string{"get", "-q", url, local})
				wantFile(t, local, content(size))
				l.client.moves(t, curl, []string{"--silent", "--show-error", "--output", local, url})
				wantFile(t, local, content(size))
			}
			get(eth, fileSize)
			get("eth1", 1000)
			local := filepath.Join(l.dir, "f")
			l.client.moves(t, haulClient, []string{"put", "-q", local, fmt.Sprintf("tftp://[%s%%25%s]/up", linkHost, eth)})
			wantFile(t, filepath.Join(l.dir, "up"), content(fileSize))
		})
	}
}

// A machine whose administrator has disabled IPv6 is served like others.
func TestNetworkWithoutIPv6(t *testing.T) {
	t.Parallel()
	off := func(t *testing.T, n *node) {
		for _, where := range []string{"all", "default", "lo"} {
			n.sysctl(t, "ipv6/conf/"+where+"/disable_ipv6", "1")
		}
	}
	for name, change := range map[string]func(t *testing.T, n *node){
		"switched off": off,
		"switched off and no loopback": func(t *testing.T, n *node) {
			off(t, n)
			n.ip(t, "link set lo down")
		},
		"not in the kernel": func(t *testing.T, n *node) { n.withoutFamily(t, unix.AF_INET6) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, flags := range [][]string{nil, {"--single-port"}} {
				l := newBareLink(t, 1500)
				l.server.ip(t, address(eth, host+"/24"))
				l.client.ip(t, address(eth, guest+"/24"))
				change(t, l.server)
				change(t, l.client)
				d := l.server.serve(t, l.dir, append(flags, "--upload", "create")...)
				l.client.fetches(t, haulClient, options{}, port69(host), "f", content(fileSize))
				l.client.fetches(t, tftpHPA, options{}, port69(host), "f", content(fileSize))
				l.client.sends(t, haulClient, options{}, port69(host), l.dir, "up", fileSize)
				if err := d.stop(); err != nil {
					t.Errorf("told to end: %v", err)
				}
			}
		})
	}
}

// withoutFamily removes an address family from the node's kernel, as far as programs can see that
// are started from now on.
func (n *node) withoutFamily(t *testing.T, family uint32) {
	t.Helper()
	load := func(offset uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
	}
	// This skips a number of instructions unless the loaded value is k.
	unless := func(k uint32, over uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: k, Jf: over}
	}
	// These are offsets in struct seccomp_data; the low half, on little-endian machines.
	const number, arch, argument = 0, 4, 16
	native := map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}[runtime.GOARCH]
	if native == 0 {
		absent(t, "no system call filter for %s is written", runtime.GOARCH)
	}
	filter := []unix.SockFilter{
		load(arch), unless(native, 5),
		load(number), unless(unix.SYS_SOCKET, 3),
		load(argument), unless(family, 1),
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EAFNOSUPPORT)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: unsafe.SliceData(filter)}
	var err error
	n.do(t, func() {
		n.changed = true // only for this thread, and the programs it starts
		if err = unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err == nil {
			err = unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0)
		}
		if s, e := unix.Socket(int(family), unix.SOCK_DGRAM, 0); e == nil {
			unix.Close(s)
			t.Error("the filter lets the family pass")
		}
	})
	if err != nil {
		absent(t, "no system call filter: %v", err)
	}
}

// NIC ROMs that do not know the server's address broadcast their request. The answer comes from
// an address of the server, because a broadcast address cannot be a source.
func TestNetworkBroadcast(t *testing.T) {
	t.Parallel()
	for _, flags := range [][]string{{"--tftp", ":69"}, {"--tftp", "0.0.0.0:69"}, {"--tftp", ":69", "--single-port"}, {"--tftp", ":69", "--no-offload"}} {
		t.Run(strings.Join(flags, " "), func(t *testing.T) {
			t.Parallel()
			l := newLink(t)
			// The answer must not come from this address.
			l.server.ip(t, address("lo", "192.0.2.1/32"))
			d := l.server.serve(t, l.dir, append(flags, "--upload", "create")...)
			for _, to := range []string{"255.255.255.255", broadcast} {
				first := l.client.ask(t, guest, port69(to)).wantFile(t, "f", content(fileSize), "blksize", "1428", "windowsize", "4")
				if first.from.Addr().String() != host {
					t.Errorf("asked %s, answered from %v", to, first.from)
				}
				first, err := l.client.ask(t, guest, port69(to)).write("up-"+to, content(5000))
				if err != nil || first.from.Addr().String() != host {
					t.Errorf("write to %s: %v, answered from %v", to, err, first.from)
				}
				wantFile(t, filepath.Join(l.dir, "up-"+to), content(5000))
			}
			// The kernel delivers a broadcast to each socket of a port, but any other request to
			// only one. It must not start several transfers.
			wantLogged(t, logged(t, d), "done f .*", "done up-255.255.255.255 .*", "done f .*", "done up-"+broadcast+" .*")
		})
	}
}

// A broadcast is answered from the address of the interface that received it.
func TestNetworkBroadcastInterfaces(t *testing.T) {
	t.Parallel()
	l := newLink(t)
	second := newNode(t)
	join(t, l.server, "eth1", second, eth, 1500)
	l.server.ip(t, address("eth1", "10.70.0.1/24"))
	second.ip(t, address(eth, "10.70.0.2/24"))
	l.server.serve(t, l.dir)
	for _, c := range []struct {
		n          *node
		from, want string
	}{{l.client, guest, host}, {second, "10.70.0.2", "10.70.0.1"}} {
		first := c.n.ask(t, c.from, port69(net.IPv4bcast.String())).wantFile(t, "f", content(fileSize))
		if first.from.Addr() != netip.MustParseAddr(c.want) {
			t.Errorf("%s is answered from %v, want %s", c.from, first.from, c.want)
		}
	}
}
