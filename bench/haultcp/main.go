// Haultcp is haul's package tcp as a program of the suite: see package tcpprog.
// With -under it accepts connections for net/http, and with -dir that serves
// files.
package main

import (
	"context"
	"net"
	"net/http"
	"time"

	"github.com/haul-project/haul/bench/tcpprog"
	"github.com/haul-project/haul/tcp"
)

func main() { tcpprog.Main("haultcp", serve) }

// clientFirst is how long a client may be silent before it is accepted all the
// same.
const clientFirst = 10 * time.Second

// grace is how long connections are waited for at the end: nobody is there.
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

// A waiter is a connection whose handler can wait without a buffer.
type waiter interface{ WaitReadable() error }

func answer(r *tcpprog.Responder, c net.Conn) {
	if w, ok := c.(waiter); ok && !r.Close {
		r.ServeWaiting(c, w.WaitReadable)
		return
	}
	r.Serve(c) // TLS keeps buffers of its own, and of one request nobody waits for the next
}
