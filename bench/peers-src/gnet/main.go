//go:build ignore

// Gnet is a program of the suite around the library github.com/panjf2000/gnet/v2: see package
// tcpprog. It is not part of the bench module, because the library cannot be fetched everywhere.
// scripts/install-bench-peers builds it where possible.
package main

import (
	"context"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/haul-project/haul/bench/tcpprog"
)

func main() { tcpprog.Main("gnet", serve) }

func serve(ctx context.Context, o tcpprog.Options) error {
	if err := o.Only(false, false, false); err != nil {
		return err
	}
	r, err := tcpprog.NewResponder(o)
	if err != nil {
		return err
	}
	h := &handler{r: r}
	context.AfterFunc(ctx, func() { _ = h.engine.Stop(context.WithoutCancel(ctx)) })
	return gnet.Run(h, "tcp4://"+o.Listen, gnet.WithMulticore(true), gnet.WithTCPNoDelay(gnet.TCPNoDelay))
}

type handler struct {
	gnet.BuiltinEventEngine
	engine gnet.Engine
	r      *tcpprog.Responder
}

func (h *handler) OnBoot(e gnet.Engine) gnet.Action {
	h.engine = e
	return gnet.None
}

// OnTraffic answers the requests that a connection has received. It runs in an event loop, which a
// delay must not block.
func (h *handler) OnTraffic(c gnet.Conn) gnet.Action {
	data, err := c.Peek(-1)
	if err != nil {
		return gnet.Close
	}
	end := tcpprog.RequestEnd(data)
	if end == 0 {
		if len(data) > tcpprog.MaxRequest {
			return gnet.Close
		}
		return gnet.None
	}
	if _, err := c.Discard(end); err != nil {
		return gnet.Close
	}
	if h.r.Delay > 0 {
		time.AfterFunc(h.r.Delay, func() {
			var own []byte // not a shared buffer, because the loop sends the answer later
			_ = c.AsyncWrite(h.r.Answer(&own), func(c gnet.Conn, _ error) error {
				if h.r.Close {
					return c.Close()
				}
				return nil
			})
		})
		return gnet.None
	}
	var scratch []byte
	if state, ok := c.Context().(*[]byte); ok {
		scratch = *state
	}
	if _, err := c.Write(h.r.Answer(&scratch)); err != nil || h.r.Close {
		return gnet.Close
	}
	if scratch != nil {
		c.SetContext(&scratch)
	}
	return gnet.None
}
