package peer

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// tftpPort is the port for TFTP requests (RFC 1350), and sshPort is the port of SSH.
const (
	tftpPort = 69
	sshPort  = 22
)

// answerTime is how long the function `answers` waits for a reply.
const answerTime = 100 * time.Millisecond

// address returns the address at which a server will listen.
func (s *Server) address(o Options) (netip.AddrPort, error) {
	a := o.Addr
	here := !a.Addr().IsValid()
	switch {
	case here && s.port69:
		// All of 127.0.0.0/8 is local, so another server on port 69 does not matter.
		ip := netip.AddrFrom4([4]byte{127, tftpPort, byte(rand.IntN(256)), byte(1 + rand.IntN(254))})
		return netip.AddrPortFrom(ip, tftpPort), nil
	case here:
		return s.freePort(Loopback)
	case s.port69 && a.Port() != 0 && a.Port() != tftpPort:
		return a, fmt.Errorf("listen on %v: it knows port %d only", a, tftpPort)
	case a.Port() != 0:
		return a, nil
	case a.Addr().IsLoopback() && !s.port69:
		return s.freePort(a.Addr())
	}
	if s.tcp {
		return netip.AddrPortFrom(a.Addr(), sshPort), nil
	}
	return netip.AddrPortFrom(a.Addr(), tftpPort), nil
}

// freePort returns an address with a port that was free a moment ago.
func (s *Server) freePort(ip netip.Addr) (netip.AddrPort, error) {
	if s.tcp {
		l, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.AddrPortFrom(ip, 0)))
		if err != nil {
			return netip.AddrPort{}, fmt.Errorf("find a free port: %w", err)
		}
		defer l.Close()
		a := l.Addr().(*net.TCPAddr).AddrPort()
		return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()), nil
	}
	c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(ip, 0)))
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("find a free port: %w", err)
	}
	defer c.Close()
	a := c.LocalAddr().(*net.UDPAddr).AddrPort()
	return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()), nil
}

// answers reports whether a TFTP server replies to a request for a file that does not exist. An
// ERROR counts as a reply.
func answers(a netip.AddrPort) bool {
	c, err := net.ListenUDP("udp", nil)
	if err != nil {
		return false
	}
	defer c.Close()
	_, _ = c.WriteToUDPAddrPort([]byte("\x00\x01is-it-up\x00octet\x00"), a)
	_ = c.SetReadDeadline(time.Now().Add(answerTime))
	_, _, err = c.ReadFromUDPAddrPort(make([]byte, 600))
	return err == nil
}

// listens reports whether a UDP socket, or a listening TCP socket, is bound to an address or to
// all addresses with that port, in the network namespace of a process.
func listens(pid int, tcp bool, a netip.AddrPort) (bool, error) {
	tables, state := []string{"udp", "udp6"}, ""
	if tcp {
		tables, state = []string{"tcp", "tcp6"}, "0A" // TCP_LISTEN
	}
	for _, table := range tables {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, table))
		if err != nil {
			return false, err
		}
		for line := range bytes.Lines(b) {
			// The format is "  sl  local_address rem_address st ...", with addresses in
			// hexadecimal.
			f := strings.Fields(string(line))
			if len(f) > 3 && (state == "" || f[3] == state) && binds(f[1], a) {
				return true, nil
			}
		}
	}
	return false, nil
}

// binds reports whether a socket receives what is sent to a. local is the socket's local address in
// the kernel's format, such as 0100007F:0045 for 127.0.0.1:69.
func binds(local string, a netip.AddrPort) bool {
	ip, port, _ := strings.Cut(local, ":")
	n, err := strconv.ParseUint(port, 16, 16)
	if err != nil || uint16(n) != a.Port() {
		return false
	}
	b, err := hex.DecodeString(ip)
	if err != nil || len(b)%4 != 0 {
		return false
	}
	for word := range slices.Chunk(b, 4) { // each word is printed as a number in this machine's byte order
		binary.NativeEndian.PutUint32(word, binary.BigEndian.Uint32(word))
	}
	addr, ok := netip.AddrFromSlice(b)
	return ok && (addr.IsUnspecified() || addr.Unmap() == a.Addr().Unmap())
}
