// Package mux carries the requests of an SFTP client to the server, over as many lanes
// of as many connections as help, and the answers back. A lane is an SSH channel with
// one SFTP session.
//
// It knows three things that need an answer: a [Call] is a request without data, a
// [File] is open on one lane or on several, and a [Transfer] moves a range of a file,
// as its plan (package pipeline) says. Where the data goes to and comes from is the
// matter of the client above: see [Sink] and [Source].
package mux

import (
	"context"
	"sync"

	"github.com/haul-project/haul/internal/pipeline"
)

// A Mux has the connections to one server, and what is under way on them.
//
// Its mutex guards its lanes, its transfers and the files that they move as well:
// one lost lane changes them all.
type Mux struct {
	config Config
	Server *Server

	ctx  context.Context // ends with the mux
	stop context.CancelCauseFunc
	work sync.WaitGroup // the goroutines of the mux

	mu         sync.Mutex
	link       *pipeline.Link         // mu
	ops        *pipeline.Ops          // mu
	table      requestTable           // mu
	pool       lanePool               // mu
	careful    bool                   // mu: how channels are opened, see lane.handshake
	queue      Queue[*Transfer]       // mu: those that may have something to ask
	calls      Queue[*Call]           // mu: those not sent yet
	transfers  map[*Transfer]struct{} // mu
	prefetched *prefetched            // mu: nil if there is none, or it was taken
	closing    int                    // mu: handles whose CLOSE nobody waits for, and that is not answered
	drained    chan struct{}          // mu: closed when Drain should look again; nil if nothing waits
	last       error                  // mu: why a lane ended last
	losses     losses                 // mu
	err        error                  // mu: why no more can be done
}

// Window returns how many bytes may be in flight. The caller holds the lock.
func (m *Mux) Window() int { return m.link.Window() }

// Lock takes the lock of the mux. Under it, nothing changes in its lanes, transfers
// and files.
func (m *Mux) Lock() { m.mu.Lock() }

// Unlock gives it back.
func (m *Mux) Unlock() { m.mu.Unlock() }

// run runs f in a goroutine that Close waits for.
func (m *Mux) run(f func()) { m.work.Go(f) }
