//go:build linux && !haul_portable

package events

import (
	"time"

	"github.com/haul-project/haul/tcp/internal/flow"
)

// A loopState is the state that a loop keeps for a connection.
type loopState struct {
	next   flow.Next // what the connection waits for
	slot   uint32    // index in the loop's table
	ready  bool      // a receive may find bytes
	closed bool      // the kernel has reported that the peer closed, an error, or urgent data: receive until nothing is left
	queued bool      // the connection is in the loop's list for the next round
	header bool      // the connection begins with a PROXY header, which is not complete yet

	late *time.Timer // the handler is done with the connection and further bytes from the client are discarded; this timer closes it. Otherwise nil
}
