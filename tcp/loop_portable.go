//go:build !linux || haul_portable

package tcp

import "errors"

// hasLoops says that no loops serve connections here: each has a goroutine.
const hasLoops = false

// A loop, and its loopState, are for systems that have them.
type (
	loop      struct{}
	loopState struct{}
)

var _ = EventConn{loopState: loopState{}}

func newLoop(*acceptor) (*loop, error) { return nil, errors.ErrUnsupported }

func (*loop) run()       {}
func (*loop) close()     {}
func (*loop) wake()      {}
func (*loop) placeFree() {}
