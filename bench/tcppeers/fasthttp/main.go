// Fasthttp is a program of the suite around the library github.com/valyala/fasthttp: see package
// tcpprog.
package main

import (
	"context"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/haul-project/haul/bench/tcpprog"
)

func main() { tcpprog.Main("fasthttp", serve) }

// bodies holds buffers for encrypted answers.
var bodies = sync.Pool{New: func() any { return new([]byte) }}

func serve(ctx context.Context, o tcpprog.Options) error {
	if err := o.Only(false, true, false); err != nil {
		return err
	}
	r, err := tcpprog.NewResponder(o)
	if err != nil {
		return err
	}
	l, err := o.Listener(ctx)
	if err != nil {
		return err
	}
	s := &fasthttp.Server{
		Handler: func(c *fasthttp.RequestCtx) {
			if r.Delay > 0 {
				time.Sleep(r.Delay)
			}
			scratch := bodies.Get().(*[]byte)
			c.SetBody(r.Body(scratch))
			bodies.Put(scratch)
		},
		DisableKeepalive:      o.Close,
		NoDefaultServerHeader: true, NoDefaultDate: true, NoDefaultContentType: true,
	}
	return s.Serve(l)
}
