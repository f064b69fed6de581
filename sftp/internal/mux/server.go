package mux

import (
	"context"
	"time"

	"github.com/haul-project/haul/sftp/internal/wire"
)

// A Server is what a server has announced. It does not change.
type Server struct {
	Ext                   wire.Extensions
	limits                wire.Limits
	ReadChunk, WriteChunk int  // bytes a READ may ask for, and a WRITE may carry
	Draft                 bool // the server takes SYMLINK in the draft's order
}

// newServer returns what a server has announced.
func newServer(g announcement, over Carrier, config Config) *Server {
	s := &Server{Ext: g.ext, limits: g.limits}
	if c, ok := over.(sshConn); ok {
		s.Draft = wire.ServerSwapsLinks(string(c.client.ServerVersion()), string(c.client.ClientVersion()))
	}
	s.ReadChunk = chunkFor(g.limits.Read, g.limits.Packet, config)
	s.WriteChunk = chunkFor(g.limits.Write, g.limits.Packet, config)
	return s
}

// chunkFor returns how many bytes of data a request is about, of which a server
// says that it takes so many, in packets of so many, or 0 if it does not say.
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

// A Config says what a mux may use. Its fields are those of the client's Config,
// with no zeros left, and two more.
type Config struct {
	Conns, Lanes, Memory   int
	Requests, RequestBytes int
	First                  string
	Timeout, Stall         time.Duration

	// Connect makes a further connection, which the mux closes; nil if no other can
	// be made.
	Connect func(context.Context) (Carrier, error)

	// Refused makes the error that callers see of one that may be a *wire.StatusError.
	Refused func(error) error
}

// packetRoom is what a packet has besides its data, at most, as OpenSSH reckons it.
const packetRoom = 1 << 10
