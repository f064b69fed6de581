//go:build !linux || haul_portable

package tcp

import "errors"

// hasLoops says that no loops serve connections here: each has a goroutine.
const hasLoops = false

// A loop is for systems that have them.
type loop struct{}

func newLoop(*acceptor) (*loop, error) { return nil, errors.ErrUnsupported }

func (*loop) run() {}

func (*loop) close() {}

func (*loop) wake() {}

func (*loop) placeFree() {}
