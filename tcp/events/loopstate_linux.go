//go:build linux && !haul_portable

package events

import (
	"time"

	"github.com/haul-project/haul/tcp/internal/flow"
)

// A loopState is a loop's state for a connection.
type loopState struct {
	next   flow.Next // what it waits for
	slot   uint32    // index in the loop's table
	ready  bool      // there may be bytes to read
	closed bool      // the kernel has reported an end or urgent data: read until nothing is left
	queued bool      // in the loop's list for its next round
	header bool      // its PROXY header is still to come

	late *time.Timer // ends the connection while it lingers: the program is done with it, and further bytes from the client are discarded
}
