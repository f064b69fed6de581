package site

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// neigh returns an RTM_NEWNEIGH message.
func neigh(state uint16, addr string, mac ...byte) []byte {
	b := make([]byte, ndmsgLen)
	binary.NativeEndian.PutUint16(b[ndmsgState:], state)
	b = attr(b, 99, []byte{1}) // an unknown attribute, and padding
	if addr != "" {
		b = attr(b, ndaDst, netip.MustParseAddr(addr).AsSlice())
	}
	b = attr(b, ndaLladdr, mac)
	h := binary.NativeEndian.AppendUint32(nil, uint32(syscall.SizeofNlMsghdr+len(b)))
	h = binary.NativeEndian.AppendUint16(h, syscall.RTM_NEWNEIGH)
	return append(append(h, make([]byte, syscall.SizeofNlMsghdr-len(h))...), b...)
}

func attr(b []byte, kind uint16, value []byte) []byte {
	b = binary.NativeEndian.AppendUint16(b, uint16(syscall.SizeofRtAttr+len(value)))
	b = binary.NativeEndian.AppendUint16(b, kind)
	b = append(b, value...)
	return append(b, make([]byte, -len(b)&3)...)
}

func TestNeighbourMessages(t *testing.T) {
	const reachable, stale, failed, incomplete, noARP, permanent = 0x02, 0x04, 0x20, 0x01, 0x40, 0x80
	var b []byte
	for _, m := range [][]byte{
		neigh(reachable, "10.0.0.1", 1, 2, 3, 4, 5, 6),
		neigh(stale, "2001:db8::1", 1, 2, 3, 4, 5, 7),
		neigh(permanent, "10.0.0.3", 1, 2, 3, 4, 5, 8),
		neigh(failed, "10.0.0.4", 1, 2, 3, 4, 5, 6),
		neigh(incomplete, "10.0.0.5"),
		neigh(noARP, "10.0.0.6", 1, 2, 3, 4, 5, 6),
		neigh(reachable, "10.0.0.7", 0, 0, 0, 0, 0, 0),
		neigh(reachable, "10.0.0.8", 1, 2, 3, 4),
		neigh(reachable, "", 1, 2, 3, 4, 5, 6),
		neigh(reachable, "10.0.0.9", 1, 1, 1, 1, 1, 1), // on two links
		neigh(reachable, "10.0.0.9", 1, 1, 1, 1, 1, 2),
		neigh(reachable, "10.0.0.9", 1, 1, 1, 1, 1, 1),
		neigh(stale, "10.0.0.1", 1, 2, 3, 4, 5, 6),
	} {
		b = append(b, m...)
	}
	table := map[netip.Addr]MAC{}
	if err := addNeighbours(table, map[netip.Addr]bool{}, b, 100); err != nil {
		t.Fatal(err)
	}
	want := "map[10.0.0.1:01:02:03:04:05:06 10.0.0.3:01:02:03:04:05:08 2001:db8::1:01:02:03:04:05:07]"
	if got := fmt.Sprint(table); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	table = map[netip.Addr]MAC{}
	if err := addNeighbours(table, map[netip.Addr]bool{}, b, 2); err != nil || len(table) != 2 {
		t.Errorf("%v, %v", table, err)
	}
}

func FuzzNeighbourMessages(f *testing.F) {
	f.Add(neigh(2, "10.0.0.1", 1, 2, 3, 4, 5, 6))
	f.Add(neigh(2, "2001:db8::1", 1, 2, 3, 4, 5, 6)[:40])
	f.Fuzz(func(t *testing.T, b []byte) {
		table := map[netip.Addr]MAC{}
		if err := addNeighbours(table, map[netip.Addr]bool{}, b, 3); err == nil && len(table) > 3 {
			t.Error(table)
		}
		if addr, mac, ok := parseNeighbour(b); ok && (!addr.IsValid() || mac == MAC{}) {
			t.Error(addr, mac)
		}
	})
}

// inNamespace runs f in a new network namespace, which is removed with its thread.
func inNamespace(t *testing.T, f func()) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can make network namespaces")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip(err)
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked, so that the thread ends
		err := syscall.Unshare(syscall.CLONE_NEWNET)
		if err == nil {
			ip(t, "link set lo up") // package net probes it for IPv6
			f()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Skipf("no network namespaces here: %v", err)
	}
}

func ip(t *testing.T, words string) bool {
	t.Helper()
	out, err := exec.Command("ip", strings.Fields(words)...).CombinedOutput()
	if err != nil {
		t.Errorf("ip %s: %v: %s", words, err, out)
	}
	return err == nil
}

// A client's hardware address is known by the time its first datagram arrives.
func TestNeighbourOnALink(t *testing.T) {
	inNamespace(t, func() {
		const mac = "52:54:00:12:34:56"
		if !ip(t, "link add ours type veth peer name theirs address "+mac) {
			return
		}
		ready, moved, sent := make(chan int), make(chan struct{}), make(chan struct{})
		defer func() { <-sent }()
		go func() {
			defer close(sent)
			runtime.LockOSThread()
			if err := syscall.Unshare(syscall.CLONE_NEWNET); err != nil {
				t.Error(err)
				close(ready)
				return
			}
			ready <- syscall.Gettid()
			if _, ok := <-moved; !ok {
				return
			}
			ip(t, "link set lo up")
			ip(t, "addr add 192.0.2.7/24 dev theirs")
			ip(t, "addr add 2001:db8::7/64 dev theirs nodad")
			ip(t, "link set theirs up")
			for _, to := range []string{"192.0.2.1:6969", "[2001:db8::1]:6969"} {
				c, err := net.Dial("udp", to)
				if err != nil {
					t.Error(err)
					continue
				}
				if _, err := c.Write([]byte("RRQ")); err != nil {
					t.Error(err)
				}
				_ = c.Close()
			}
			<-moved // closed at the end: the link and its neighbours end with the namespace
		}()
		defer close(moved)
		tid, ok := <-ready
		if !ok || !ip(t, fmt.Sprintf("link set theirs netns %d", tid)) {
			return
		}
		ip(t, "addr add 192.0.2.1/24 dev ours")
		ip(t, "addr add 2001:db8::1/64 dev ours nodad")
		ip(t, "link set ours up")
		ip(t, "neigh add 192.0.2.9 lladdr 52:54:00:12:34:99 dev ours nud permanent")
		conn, err := net.ListenPacket("udp", ":6969")
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		moved <- struct{}{}
		n, err := KernelNeighbours()
		if err != nil {
			t.Error(err)
			return
		}
		for range 2 {
			if err := conn.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
				t.Error(err)
			}
			_, from, err := conn.ReadFrom(make([]byte, 100))
			if err != nil {
				t.Error(err)
				return
			}
			addr := from.(*net.UDPAddr).AddrPort().Addr().Unmap()
			if got, ok, err := n.MAC(addr); got.String() != mac || !ok || err != nil {
				t.Errorf("%v has %v, %v, %v", addr, got, ok, err)
			}
		}
		if got, ok, err := n.MAC(netip.MustParseAddr("192.0.2.9")); got.String() != "52:54:00:12:34:99" || !ok || err != nil {
			t.Errorf("%v, %v, %v", got, ok, err)
		}
		if got, ok, err := n.MAC(netip.MustParseAddr("192.0.2.10")); ok || err != nil {
			t.Errorf("%v, %v, %v", got, ok, err)
		}
	})
}
