//go:build ignore

// Evio is a program of the suite around the library github.com/tidwall/evio: see package tcpprog.
// It is not part of the bench module, because the library cannot be fetched everywhere.
// scripts/install-bench-peers builds it where possible.
package main

import (
	"context"
	"time"

	"github.com/tidwall/evio"

	"github.com/haul-project/haul/bench/tcpprog"
)

func main() { tcpprog.Main("evio", serve) }

// state holds the state of a connection between two calls of Data.
type state struct {
	in      evio.InputStream
	scratch []byte
}

// serve returns only if evio fails: evio offers no way to stop.
func serve(_ context.Context, o tcpprog.Options) error {
	if err := o.Only(false, false, false); err != nil {
		return err
	}
	r, err := tcpprog.NewResponder(o)
	if err != nil {
		return err
	}
	events := evio.Events{NumLoops: -1} // one loop for each CPU
	events.Opened = func(c evio.Conn) (out []byte, opts evio.Options, action evio.Action) {
		c.SetContext(&state{})
		return
	}
	// When a delay is over, Data is called without data, because nothing else wakes a loop.
	events.Data = func(c evio.Conn, in []byte) (out []byte, action evio.Action) {
		s := c.Context().(*state)
		if in != nil {
			data := s.in.Begin(in)
			end := tcpprog.RequestEnd(data)
			if end == 0 && len(data) > tcpprog.MaxRequest {
				return nil, evio.Close
			}
			s.in.End(data[end:])
			if end == 0 {
				return nil, evio.None
			}
			if r.Delay > 0 {
				time.AfterFunc(r.Delay, c.Wake)
				return nil, evio.None
			}
		}
		if r.Close {
			action = evio.Close
		}
		return r.Answer(&s.scratch), action
	}
	return evio.Serve(events, "tcp4://"+o.Listen)
}
