//go:build !linux || haul_portable

package events

import "github.com/haul-project/haul/tcp/internal/drive"

// NewLoop returns nil: each connection has a goroutine here. The server calls it.
func (h *Handler) NewLoop(*drive.Socket) (drive.Loop, error) { return nil, nil }

// A loopState is for systems that have loops.
type loopState struct{}

var _ = Conn{loopState: loopState{}}
