package mux

import (
	"math"
	"slices"
	"strings"

	"github.com/haul-project/haul/sftp/internal/wire"
)

// An announcement holds the abilities and limits that a server sends at the start of a session.
type announcement struct {
	ext        wire.Extensions
	limits     wire.Limits
	prefetched *prefetched // the first file; nil if no file was requested
}

// A Server describes a server, as far as its announcement and its version string reveal. It never
// changes.
type Server struct {
	Ext                   wire.Extensions
	limits                wire.Limits
	ReadChunk, WriteChunk int  // the largest numbers of bytes that a READ may request and that a WRITE may carry
	Draft                 bool // the server expects the two paths of SYMLINK in the order of the draft

	// InOrder is set if the server is known to process the requests of a session in order, as
	// section 6.1 of the draft demands. This is so if its version string contains one of
	// orderedServers and it announces limits, as these servers do. Other servers, such as those
	// built on github.com/pkg/sftp, may process an FSETSTAT before a WRITE that was sent earlier.
	// The WRITE then changes the time that was set. If such a server processed a CLOSE first, the
	// WRITE would be lost.
	InOrder bool
}

// orderedServers are parts of the version strings of servers that process requests in order. The
// version string of sshd alone proves nothing, because sshd may run another program for SFTP.
var orderedServers = []string{"OpenSSH", "haul"}

// newServer returns the description of the server at the other end of a Carrier.
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

// OpenFiles returns the limit for open files and directories of a session. It returns 0 if the
// server announces no limit.
func (s *Server) OpenFiles() int { return int(min(s.limits.Handles, math.MaxInt32)) }

// packetRoom is how many bytes of a packet are reserved for everything but its data. OpenSSH uses
// the same number.
const packetRoom = 1 << 10

// chunkFor returns how many bytes of data to put into one request. The server accepts at most
// `limit` bytes of data in a request, and packets of at most `packet` bytes; 0 means that it
// announces no such limit.
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
