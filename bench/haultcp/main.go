// Haultcp is a program of the suite around haul's package tcp: see package tcpprog. With -events,
// package tcp calls a function for received data, and this function must not wait. With -under,
// package tcp only accepts connections, which net/http serves. With -dir, net/http serves files.
package main

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/haul-project/haul/bench/tcpprog"
	"github.com/haul-project/haul/tcp"
	"github.com/haul-project/haul/tcp/events"
)

func main() { tcpprog.Main("haultcp", serve) }

// clientFirst is how long a client may be silent before the server accepts its connection anyway.
const clientFirst = 10 * time.Second

// grace is how long the server waits for open connections when it stops. It is short because no
// client is left.
const grace = 100 * time.Millisecond

func serve(ctx context.Context, o tcpprog.Options) error {
	config, err := o.TLS()
	if err != nil {
		return err
	}
	r, err := tcpprog.NewResponder(o)
	if err != nil {
		return err
	}
	var options tcp.Options
	if o.Defer {
		options.ClientFirst = clientFirst
	}
	socket, err := tcp.Listen(ctx, o.Listen, options)
	if err != nil {
		return err
	}
	s := &tcp.Server{TLS: config}
	if o.Events && o.Delay == 0 { // a call that sleeps would hold up all other connections
		if err := o.Only(false, true, true); err != nil {
			return err
		}
		s.Driver, s.Grace = &events.Handler{OnData: onData(r)}, grace
		return s.Serve(ctx, socket)
	}
	if !o.Under && o.Dir == "" {
		s.Handle = func(_ context.Context, c net.Conn) { answer(r, c) }
		s.Grace = grace
		return s.Serve(ctx, socket)
	}
	l, err := s.Listener(socket)
	if err != nil {
		return err
	}
	return tcpprog.ServeHTTP(ctx, o, func(h *http.Server) error { return h.Serve(l) })
}

// onData returns the function that package tcp calls for received data. It answers the first
// request in the data, and returns the length of the request.
func onData(r *tcpprog.Responder) func(*events.Conn, []byte) int {
	scratches := sync.Pool{New: func() any { return new([]byte) }}
	return func(c *events.Conn, data []byte) int {
		end := tcpprog.RequestEnd(data)
		if end == 0 {
			return 0
		}
		scratch := scratches.Get().(*[]byte)
		_, err := c.Write(r.Answer(scratch))
		scratches.Put(scratch)
		if err != nil || r.Close {
			c.Close()
		}
		return end
	}
}

// A waiter is a connection whose handler can wait without a buffer.
type waiter interface{ WaitReadable() error }

func answer(r *tcpprog.Responder, c net.Conn) {
	if w, ok := c.(waiter); ok && !r.Close {
		r.ServeWaiting(c, w.WaitReadable)
		return
	}
	r.Serve(c) // TLS has its own buffers; and with Close, no connection waits for another request
}
