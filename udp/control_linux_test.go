//go:build !haul_portable

package udp

import (
	"encoding/binary"
	"net"
	"net/netip"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// controls joins control messages: triples of level, kind and data.
func controls(t *testing.T, parts ...any) []byte {
	t.Helper()
	w := controlWriter{b: make([]byte, 256)}
	for i := 0; i < len(parts); i += 3 {
		data := parts[i+2].([]byte)
		copy(w.add(int32(parts[i].(int)), int32(parts[i+1].(int)), len(data)), data)
	}
	return w.b[:w.n]
}

func in4(source, header string) []byte {
	s, h := netip.MustParseAddr(source).As4(), netip.MustParseAddr(header).As4()
	return append(append([]byte{0, 0, 0, 0}, s[:]...), h[:]...)
}

func in6(addr string, index uint32) []byte {
	a := netip.MustParseAddr(addr).As16()
	return append(a[:], word(index)...)
}

func word(n uint32) []byte { return binary.NativeEndian.AppendUint32(nil, n) }

func TestParseControl(t *testing.T) {
	lo, err := net.InterfaceByIndex(1)
	if err != nil {
		t.Skip(err)
	}
	gro := word(1464)
	broadcasts := []string{"IPv4 on both", "the other way round"}
	for name, tt := range map[string]struct {
		b       []byte
		local   string
		segment int
	}{
		"nothing": {nil, "", 0},
		"IPv4":    {controls(t, unix.SOL_IP, unix.IP_PKTINFO, in4("192.0.2.1", "192.0.2.1")), "192.0.2.1", 0},
		"IPv6":    {controls(t, unix.SOL_IPV6, unix.IPV6_PKTINFO, in6("2001:db8::1", 7)), "2001:db8::1", 0},
		"IPv4 on both": {controls(t,
			unix.SOL_IPV6, unix.IPV6_PKTINFO, in6("::ffff:192.0.2.255", 7),
			unix.SOL_IP, unix.IP_PKTINFO, in4("192.0.2.1", "192.0.2.255")), "192.0.2.1", 0},
		"the other way round": {controls(t,
			unix.SOL_IP, unix.IP_PKTINFO, in4("192.0.2.1", "192.0.2.255"),
			unix.SOL_IPV6, unix.IPV6_PKTINFO, in6("::ffff:192.0.2.255", 7)), "192.0.2.1", 0},
		"mapped": {controls(t, unix.SOL_IPV6, unix.IPV6_PKTINFO, in6("::ffff:192.0.2.1", 7)), "192.0.2.1", 0},
		"group":  {controls(t, unix.SOL_IPV6, unix.IPV6_PKTINFO, in6("ff02::1", 1)), "", 0},
		"link":   {controls(t, unix.SOL_IPV6, unix.IPV6_PKTINFO, in6("fe80::1", 1)), "fe80::1%" + lo.Name, 0},
		"glued":  {controls(t, unix.SOL_UDP, unix.UDP_GRO, gro), "", 1464},
		"glued, IPv4": {controls(t, unix.SOL_UDP, unix.UDP_GRO, gro,
			unix.SOL_IP, unix.IP_PKTINFO, in4("192.0.2.1", "192.0.2.1")), "192.0.2.1", 1464},
		"unknown first": {controls(t, 77, 88, []byte{1, 2, 3}, unix.SOL_UDP, unix.UDP_GRO, gro), "", 1464},
		"too short":     {controls(t, unix.SOL_UDP, unix.UDP_GRO, gro[:3]), "", 0},
		"negative":      {controls(t, unix.SOL_UDP, unix.UDP_GRO, word(1<<32-1)), "", 0},
		"cut off":       {controls(t, unix.SOL_UDP, unix.UDP_GRO, gro)[:unix.SizeofCmsghdr+3], "", 0},
	} {
		var want netip.Addr
		if tt.local != "" {
			want = netip.MustParseAddr(tt.local)
		}
		local, segment, broadcast := parseControl(tt.b)
		if local != want || segment != tt.segment || broadcast != slices.Contains(broadcasts, name) {
			t.Errorf("%s: %v, %d, %v, want %v, %d", name, local, segment, broadcast, want, tt.segment)
		}
	}
}

// For any bytes, parsing ends, and returns only possible values.
func FuzzControl(f *testing.F) {
	f.Add([]byte{})
	f.Add(make([]byte, 64))
	b := batch{}
	b.grow(1)
	b.setControl(0, netip.MustParseAddr("fe80::1%1"), 1464, true)
	f.Add(b.controls[0][:])
	b.setControl(0, netip.MustParseAddr("192.0.2.1"), 1464, false)
	f.Add(b.controls[0][:])
	f.Fuzz(func(t *testing.T, b []byte) {
		if local, segment, _ := parseControl(b); segment < 0 || local.IsMulticast() && local.Is6() {
			t.Errorf("%v, %d", local, segment)
		}
		refused(b)
	})
}

// Addresses are converted to the kernel's form and back.
func TestPeerForms(t *testing.T) {
	lo, err := net.InterfaceByIndex(1)
	if err != nil {
		t.Skip(err)
	}
	b := batch{}
	b.grow(1)
	for _, tt := range []struct {
		in, out string
		v6      bool
		length  uint32
	}{
		{"192.0.2.1:69", "192.0.2.1:69", false, unix.SizeofSockaddrInet4},
		{"192.0.2.1:69", "192.0.2.1:69", true, unix.SizeofSockaddrInet6},
		{"[::ffff:192.0.2.1]:69", "192.0.2.1:69", true, unix.SizeofSockaddrInet6},
		{"[::ffff:192.0.2.1]:69", "192.0.2.1:69", false, unix.SizeofSockaddrInet4},
		{"[2001:db8::1]:65535", "[2001:db8::1]:65535", true, unix.SizeofSockaddrInet6},
		{"[fe80::1%" + lo.Name + "]:1", "[fe80::1%" + lo.Name + "]:1", true, unix.SizeofSockaddrInet6},
		{"[fe80::1%1]:1", "[fe80::1%" + lo.Name + "]:1", true, unix.SizeofSockaddrInet6},
		{"[fe80::1%4000000000]:1", "[fe80::1%4000000000]:1", true, unix.SizeofSockaddrInet6},
	} {
		b.setPeer(0, netip.MustParseAddrPort(tt.in), tt.v6)
		if got := b.peer(0); got != netip.MustParseAddrPort(tt.out) || b.headers[0].Namelen != tt.length {
			t.Errorf("%s became %v in %d bytes, want %s in %d", tt.in, got, b.headers[0].Namelen, tt.out, tt.length)
		}
	}
	b.setPeer(0, netip.AddrPort{}, true)
	if b.headers[0].Namelen != 0 {
		t.Error("no peer became an address")
	}
}

// Zones cause no allocation per packet either.
func TestZoneAllocs(t *testing.T) {
	peer := netip.MustParseAddrPort("[fe80::1%1]:69")
	b := batch{}
	b.grow(1)
	if allocs := testing.AllocsPerRun(100, func() {
		b.setPeer(0, peer, true)
		peer = b.peer(0)
	}); allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}
