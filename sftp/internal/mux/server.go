package mux

import (
	"math"
	"slices"
	"strings"

	"github.com/haul-project/haul/sftp/internal/wire"
)

// An announcement holds what a server offers at the start of a session.
type announcement struct {
	ext        wire.Extensions
	limits     wire.Limits
	prefetched *prefetched // nil if no file was requested
}

// A Server describes a server from its announcement. It does not change.
type Server struct {
	Ext                   wire.Extensions
	limits                wire.Limits
	ReadChunk, WriteChunk int  // the largest number of bytes that a READ may request, and that a WRITE may carry
	Draft                 bool // the server expects the arguments of SYMLINK in the draft's order

	// InOrder is set if the server is known to process the requests of a session in order, as
	// section 6.1 of the draft demands: its version contains one of orderedServers, and it
	// announces limits, as these servers do. Servers built on github.com/pkg/sftp may process an
	// FSETSTAT before a WRITE that was sent earlier, and this WRITE then changes the time that was
	// set. A server that processed a CLOSE first would lose the WRITE.
	InOrder bool
}

// orderedServers are substrings of the versions of servers that process requests in order.
// sshd may run another program for SFTP, so its version alone is no proof.
var orderedServers = []string{"OpenSSH", "haul"}

// newServer returns a Server for an announcement.
func newServer(g announcement, over Carrier, config Config) *Server {
	s := &Server{Ext: g.ext, limits: g.limits, InOrder: g.ext.Has(wire.ExtLimits)}
	if c, ok := over.(sshConn); ok {
		version := string(c.client.ServerVersion())
		s.Draft = wire.ServerSwapsLinks(version, string(c.client.ClientVersion()))
		s.InOrder = s.InOrder && slices.ContainsFunc(orderedServers, func(name string) bool { return strings.Contains(version, name) })
	}
	s.ReadChunk = chunkFor(g.limits.Read, g.limits.Packet, config)
	s.WriteChunk = chunkFor(g.limits.Write, g.limits.Packet, config)
	return s
}

// OpenFiles returns how many files and directories a session may have open, or 0 if the server does
// not announce a limit.
func (s *Server) OpenFiles() int { return int(min(s.limits.Handles, math.MaxInt32)) }

// packetRoom is the largest number of bytes in a packet besides its data, as OpenSSH calculates it.
const packetRoom = 1 << 10

// chunkFor returns how many bytes of data to put into a request. limit is the most data that the
// server accepts in one request, and packet the size of its largest packet; 0 means that the server
// does not announce it.
func chunkFor(limit, packet uint64, config Config) int {
	n := wire.SureData
	if limit > 0 {
		n = int(min(limit, wire.CommonData))
		if packet > packetRoom {
			n = min(n, int(min(packet-packetRoom, wire.CommonData)))
		}
	}
	if want := config.RequestBytes; want > 0 {
		n = min(n, want)
	}
	return max(1, min(n, config.Memory))
}
