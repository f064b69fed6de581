//go:build linux && !haul_portable

package events

import (
	"time"

	"github.com/haul-project/haul/tcp/internal/flow"
)

// A loopState is what a loop knows of a connection.
type loopState struct {
	next   flow.Next // what it waits for
	slot   uint32    // of the loop's table
	ready  bool      // there may be bytes to read
	closed bool      // the kernel has reported an end or urgent data: read until there is nothing
	queued bool      // in the loop's list for its next round
	header bool      // its PROXY header is to come

	late *time.Timer // lingers: ends it. It is over for the program, and what its client still sends is discarded
}
