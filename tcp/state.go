package tcp

import (
	"context"
	"net"
	"sync"
)

// WithState makes a handler of a function that has a state for each connection, of a type
// that the program chooses. States are reused. Between two connections a state is set to
// its zero value, or its method Reset is called if it has one, which may keep buffers. A
// state is not reused after a panic.
//
//	s.Handle = tcp.WithState(func(ctx context.Context, c net.Conn, p *parser) { … })
//
// A handler that keeps its state in variables does not need this.
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
