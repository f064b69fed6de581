//go:build linux && !haul_portable

package events

import (
	"time"

	"github.com/haul-project/haul/tcp/internal/flow"
)

// A loopState is the state that a loop keeps for a connection.
type loopState struct {
	next  flow.Next // what the connection waits for
	slot  uint32    // index in the loop's table
	ready bool      // a receive may find bytes
	// closed means that the kernel has reported an error, urgent data, or that the peer closed the
	// connection: receive until nothing is left.
	closed bool
	queued bool // the connection is in the loop's list for the next round
	header bool // the connection begins with a PROXY header, which is not complete yet

	// late is the timer that closes the connection once the handler is done with it and further
	// bytes from the client are discarded. Otherwise it is nil.
	late *time.Timer
}
