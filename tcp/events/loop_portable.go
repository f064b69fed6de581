//go:build !linux || haul_portable

package events

import "github.com/haul-project/haul/tcp/internal/drive"

// NewLoop returns nil, because on this system each connection has a goroutine. The server calls it.
func (h *Handler) NewLoop(*drive.Socket) (drive.Loop, error) { return nil, nil }

// A loopState is empty on systems without loops.
type loopState struct{}

var _ = Conn{loopState: loopState{}}
