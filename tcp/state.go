package tcp

import (
	"context"
	"net"
	"sync"
)

// WithState makes a handler of one that wants a state of its own for each connection,
// of a type that the program chooses. States are used again: between two connections
// one is set to its zero value, or if it has a method Reset, that is called instead,
// which may keep buffers. A state is not used again after a panic.
//
//	s.Handle = tcp.WithState(func(ctx context.Context, c net.Conn, p *parser) { … })
//
// A handler whose state is in its variables needs none of this.
func WithState[S any](handle func(ctx context.Context, c net.Conn, state *S)) func(context.Context, net.Conn) {
	states := sync.Pool{New: func() any { return new(S) }}
	return func(ctx context.Context, c net.Conn) {
		s := states.Get().(*S)
		handle(ctx, c, s)
		if r, ok := any(s).(interface{ Reset() }); ok {
			r.Reset()
		} else {
			var zero S
			*s = zero
		}
		states.Put(s)
	}
}
